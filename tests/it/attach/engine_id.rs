//! The relation of an engine's own id to its session, when everything dies right after the first event.

use rustix::process::Signal;

use crate::attach::station::Station;

fn script(conversation: &str) -> String {
    format!(
        "read -r go; echo '{{\"type\":\"session\",\"engine_session_id\":\"{conversation}\"}}'; \
         echo '{{\"type\":\"turn_started\"}}'; cat > /dev/null"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_found_after_runner_or_worker_were_killed_during_the_first_turn() {
    let mut station = Station::new();
    for (number, dies) in ["runner", "worker", "both"].into_iter().enumerate() {
        let conversation = format!("conversation-{number}");
        let id = station.start(&format!("repo-{number}"), &script(&conversation));
        let mut events = station.follow(&format!("/v1/sessions/{id}/events"), None, true).await;
        assert_eq!(events.next().await.unwrap().name, "live");
        station.send(&id, "go");
        let first = events.next().await.unwrap();
        assert!(first.data["line"].as_str().unwrap().contains(&conversation), "{first:?}");
        if dies != "worker" {
            station.lose_runner();
        }
        if dies != "runner" {
            station.lose_worker(Signal::KILL);
        }
        let found = station.get(&format!("/v1/engine-sessions/{conversation}")).await;
        assert_eq!((found["id"].as_str(), found["engine_session_id"].as_str()), (Some(&*id), Some(&*conversation)));
        let path = format!("/v1/engine-sessions/{conversation}/events");
        let live = station.follow(&path, None, true).await.next().await.unwrap();
        assert_eq!((live.name.as_str(), live.data["session"]["id"].as_str()), ("live", Some(&*id)));
        assert_eq!(live.data["state"]["generating"], true, "{dies}: {live:?}");
    }
}
