//! Clients of a session that ended and was started anew: nobody goes on where nothing goes on.

use serde_json::json;
use sexton::session::Status;

use crate::api::Ask;
use crate::api::attach::{Stage, enrol, until};
use crate::support::world::id;

/// Has the runner start the session's second engine, as its row says from then on, and say two lines.
async fn start_again(stage: &Stage) {
    let body = json!({"session_id": "s1", "generation": 2, "engine": "sh", "cwd": "/", "args": [Stage::ECHO],
        "owner_id": crate::api::ME});
    assert_eq!(stage.runner.post("start", body).await.0, 200);
    let sql = "update sessions set generation = 2, status = 'active', ended_at = null, end_reason = null";
    sqlx::query(sql).execute(&mut stage.host.world.connection().await).await.unwrap();
    for text in ["new", "now"] {
        say(stage, text).await;
    }
    for _ in 0..2_000 {
        if stage.runner.get("/coding/live?session_id=s1").await["cursor"] == "2-8" {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{}", stage.runner.get("/coding/live?session_id=s1").await);
}

async fn say(stage: &Stage, text: &str) {
    let said = json!({"session_id": "s1", "generation": 2, "text": text});
    assert_eq!(stage.runner.post("messages", said).await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_back_with_a_cursor_of_a_start_that_ended_begins_anew() {
    let stage = Stage::new().await;
    let mut events = stage.listen("client=tab").await;
    events.live().await;
    stage.say("one").await;
    stage.say("two").await;
    assert_eq!((events.line().await, events.line().await), ("one".to_owned(), "two".to_owned()));
    stage.runner.force("s1", 1).await;
    let end = events.next().await.unwrap();
    assert_eq!((&*end.name, end.id.as_deref()), ("ended", Some("1-8")));
    stage.host.world.sweep().await;
    assert_eq!(stage.host.world.read(&stage.session).await.status, Status::Ended);
    let mut late = stage.listen("cursor=1-8").await;
    assert_eq!((&late.live().await.data["resumed"], &*late.next().await.unwrap().name), (&json!(true), "ended"));

    start_again(&stage).await;
    let header = Ask::new("GET", "/v1/sessions/s1/events").header("last-event-id", "1-8");
    let all = [stage.listen("cursor=1-8").await, stage.open(header).await, stage.listen("client=tab").await];
    let mut streams = Vec::new();
    for mut stream in all {
        let live = stream.live().await;
        assert_eq!(
            (live.id.as_deref(), &live.data["resumed"]),
            (Some("2-8"), &json!(false)),
            "a line ends at 8 here too"
        );
        streams.push(stream);
    }
    say(&stage, "more").await;
    for stream in &mut streams {
        assert_eq!(stream.line().await, "more");
    }
    assert_eq!(stage.host.get("/v1/sessions/s1/history?after=1-8").await.code(), "invalid");
    until(&stage.host, "/v1/sessions/s1/history?after=2-8", |it| it["items"][0]["line"] == "more").await;

    stage.runner.force("s1", 2).await;
    stage.host.world.sweep().await;
    let mut late = stage.listen("cursor=1-8").await;
    late.live().await;
    let live = late.live().await;
    assert_eq!(
        (live.id.as_deref(), &live.data["resumed"], &*late.next().await.unwrap().name),
        (Some("2-13"), &json!(false), "ended")
    );
    stage.runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_lives_through_a_new_start_says_so_and_goes_on_in_it() {
    let mut stage = Stage::new().await;
    let mut events = stage.listen("").await;
    events.live().await;
    stage.say("one").await;
    stage.say("two").await;
    assert_eq!((events.line().await, events.line().await), ("one".to_owned(), "two".to_owned()));
    // At a place that the worker does not know yet: the stream's runner is away while all this happens.
    stage.runner = stage.runner.again().await;
    stage.runner.force("s1", 1).await;
    start_again(&stage).await;
    stage.host.world.store().remove_runner(&id("runner-1")).await.unwrap();
    enrol(&stage.host, &stage.runner).await;
    let live = events.live().await;
    assert_eq!((live.id.as_deref(), &live.data["resumed"]), (Some("2-8"), &json!(false)));
    assert_eq!(live.data["session"]["generation"], 2);
    say(&stage, "more").await;
    assert_eq!(events.line().await, "more");
    stage.runner.force("s1", 2).await;
    let end = events.next().await.unwrap();
    assert_eq!((&*end.name, end.id.as_deref(), &end.data["generation"]), ("ended", Some("2-13"), &json!(2)));
    assert_eq!(events.next().await, None);
    stage.runner.stop().await;
}
