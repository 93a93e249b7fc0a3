//! The right to drive a session: one has it, until the claim lapses, and anybody can see who and until when.

use futures_util::future::join_all;
use serde_json::{Value, json};
use sexton::time::{HOUR, MINUTE};

use crate::api::{Answer, Ask, Host};
use crate::support::fake_runner::Verb;

const DRIVER: &str = "/v1/sessions/s/driver";

async fn claim(host: &Host, name: &str) -> Answer {
    host.post(DRIVER, json!({"driver": name})).await
}

#[tokio::test]
async fn of_a_hundred_claimers_at_once_exactly_one_drives() {
    let host = Host::new().await;
    host.world.session("s", HOUR, |_| ()).await;
    let names: Vec<String> = (0..100).map(|at| format!("driver-{at}")).collect();

    let answers = join_all(names.iter().map(|name| claim(&host, name))).await;

    let (got, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!(got.len(), 1, "one of two at once gets it");
    let holder = got[0].ok()["driver"].as_str().unwrap().to_owned();
    for answer in refused {
        assert_eq!(answer.error(), (409, "conflict".to_owned()));
        assert!(answer.json()["error"]["message"].as_str().unwrap().starts_with(&format!("{holder} drives")));
    }
    assert_eq!(host.get(DRIVER).await.ok()["driver"], json!(holder));
}

#[tokio::test]
async fn a_claim_is_shown_with_its_end_and_lapses_by_itself_without_ending_the_session() {
    let host = Host::new().await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    let nobody = json!({"driver": null, "since": null, "lapses_at": null, "lapsed": false});
    assert_eq!(host.get(DRIVER).await.ok(), nobody);
    let began = host.world.now();
    claim(&host, "ada").await.ok();
    let shown = |since: sexton::time::UtcMs, lapsed| json!({"driver": "ada", "since": since.to_string(), "lapses_at": since.plus(15 * MINUTE).to_string(), "lapsed": lapsed});
    assert_eq!(host.get(DRIVER).await.ok(), shown(began, false));

    host.world.clock.advance(10 * MINUTE);
    claim(&host, "ada").await.ok();
    let renewed = host.world.now();
    assert_eq!(host.get(DRIVER).await.ok(), shown(renewed, false), "renewed by its holder");
    host.world.clock.advance(15 * MINUTE - 1);
    let held = claim(&host, "bob").await;
    assert_eq!(held.error(), (409, "conflict".to_owned()));
    let message = held.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("ada") && message.contains(&renewed.plus(15 * MINUTE).to_string()), "{message}");
    host.world.clock.advance(1);
    let before = host.world.read(&session).await;
    assert_eq!(host.get(DRIVER).await.ok(), shown(renewed, true));
    assert_eq!(host.world.read(&session).await, before, "computed on reading; nothing is written");
    assert!(before.is_open());
    assert_eq!(claim(&host, "bob").await.ok()["driver"], "bob", "whoever claims a lapsed one gets it");
}

#[tokio::test]
async fn a_release_by_somebody_else_is_harmless() {
    let host = Host::new().await;
    host.world.session("s", HOUR, |_| ()).await;
    claim(&host, "ada").await.ok();
    let release = Ask::new("DELETE", "/v1/sessions/s/driver?driver=bob").token(&host.token);
    assert_eq!(host.ask(release).await.ok()["driver"], "ada");
    assert_eq!(host.get(DRIVER).await.ok()["lapsed"], false);
}

#[tokio::test]
async fn a_claim_writes_only_the_claim_and_tells_the_runner_first() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.held(&runner, "s", HOUR).await;
    let before = host.world.read(&session).await;

    claim(&host, "ada").await.ok();

    let after = host.world.read(&session).await;
    assert_eq!((after.last_activity_at, after.updated_at), (before.last_activity_at, before.updated_at));
    assert_eq!(after.driver_at, Some(host.world.now()));
    assert_eq!(runner.calls_of(Verb::Touch).len(), 1);
    runner.script().end_by_itself(&session.id, "exited", &host.world.clock);
    assert_eq!(claim(&host, "ada").await.error(), (410, "ended".to_owned()));
    assert_eq!(host.get(DRIVER).await.ok()["driver"], Value::from("ada"), "who drove it last can be read");
}
