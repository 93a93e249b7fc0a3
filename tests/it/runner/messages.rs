//! What a sender is told about a message, and that it reaches the engine once.

use std::time::Duration;

use serde_json::{Value, json};
use sexton::runner::AdapterKind;

use crate::support::runner::TestRunner;

const TURN: &str = r#"{"type":"turn_started"}"#;
const TURN_END: &str = r#"{"type":"turn_ended"}"#;

async fn turn(runner: &TestRunner, id: &str, text: &str) -> (u16, Value) {
    let body = json!({"session_id": id, "generation": 1, "text": text, "wait": true});
    let (status, answer) = runner.post("messages", body).await;
    (status, answer["turn"].clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_waits_is_told_what_became_of_the_turn() {
    let runner = TestRunner::start_with(|settings| settings.send_timeout = 300).await;
    runner.sample("told", &["idle"]).await;
    runner.until_tracked("told", "quiet", |one| one["generating"] == false).await;
    assert_eq!(turn(&runner, "told", "hello").await, (200, json!("over")));
    let plain = runner.say("told", "hello").await;
    assert_eq!((plain.0, plain.1.get("turn")), (200, None), "who does not wait is told nothing of it");

    runner.sample("untold", &["plain"]).await;
    assert_eq!(turn(&runner, "untold", "hello").await, (200, json!("untold")));

    runner.sample("long", &["puppet"]).await;
    for line in [TURN, TURN_END] {
        runner.say("long", line).await;
    }
    runner.until_tracked("long", "quiet", |one| one["generating"] == false).await;
    assert_eq!(turn(&runner, "long", TURN).await, (200, json!("running")));
    let one = runner.until_tracked("long", "still at it", |one| one["generating"] == true).await;
    assert_eq!(one["generating"], true, "the turn goes on");
    let over = turn(&runner, "long", TURN_END).await;
    assert_eq!(over, (200, json!("over")));
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_sent_again_is_written_once() {
    let mut runner = TestRunner::start().await;
    runner.sample("s1", &["puppet"]).await;
    let body = json!({"session_id": "s1", "generation": 1, "text": "hello", "message_id": "m-1"});
    let (one, two) = tokio::join!(runner.post("messages", body.clone()), runner.post("messages", body.clone()));
    assert_eq!((one.0, two.0), (200, 200));
    runner = runner.again().await;
    assert_eq!(runner.post("messages", body).await.0, 200);
    runner.say("s1", "last").await;
    let mut events = runner.listen("s1", "cursor=1-0").await;
    assert_eq!((events.line().await, events.line().await), ("hello".to_owned(), "last".to_owned()));
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_sent_again_begins_no_turn_and_waits_for_none() {
    let runner = TestRunner::start_with(|settings| {
        let agent = &mut settings.engines.get_mut("sample").unwrap();
        agent.adapter = AdapterKind::Acp;
    })
    .await;
    runner.sample("s1", &["acp"]).await;
    let body = json!({"session_id": "s1", "generation": 1, "text": "hello", "message_id": "m-1", "wait": true});
    for _ in 0..3 {
        let (status, answer) = runner.post("messages", body.clone()).await;
        assert_eq!((status, &answer["turn"]), (200, &json!("over")), "{answer}");
        let one = runner.list().await["tracked"][0].clone();
        assert_eq!(one["generating"], false, "what was taken before changes nothing: {one}");
    }
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_does_not_read_is_busy_before_too_much_waits_for_it() {
    let runner = TestRunner::start().await;
    runner.script("s1", "exec sleep 4000").await;
    // Two of them are all that may wait.
    let text = "x".repeat(7 << 20);
    let flood = async {
        let long = tokio::join!(runner.say("s1", &text), runner.say("s1", &text), runner.say("s1", &text));
        [long.0, long.1, long.2]
    };
    let end = async {
        let one = runner.until_tracked("s1", "used", |one| one["idle_ms"] == 0).await;
        // The one that finds no place is refused at once; the others are told by the end.
        tokio::time::sleep(Duration::from_secs(2)).await;
        (one, runner.force("s1", 1).await)
    };
    let (flood, _) = tokio::join!(flood, end);
    let busy: Vec<_> = flood.iter().filter(|(status, _)| *status == 503).collect();
    assert_eq!(busy.len(), 1, "{flood:?}");
    assert_eq!(busy[0].1["outcome"], "busy");
    let message = busy[0].1["message"].as_str().unwrap();
    assert!(message.contains("too much waits for it; nothing was added"), "{message}");
    assert_eq!(flood.iter().filter(|(status, _)| *status == 410).count(), 2, "{flood:?}");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interruption_ends_no_engine_that_has_nothing_to_interrupt() {
    let runner = TestRunner::start().await;
    let film = runner.film("s1").await;
    film.says(&[TURN, TURN_END]);
    runner.until_tracked("s1", "quiet", |one| one["generating"] == false).await;
    let body = json!({"session_id": "s1", "generation": 1});
    assert_eq!(runner.post("interrupt", body.clone()).await.0, 200);
    film.says(&[TURN]);
    runner.until_tracked("s1", "in its turn", |one| one["generating"] == true).await;
    assert_eq!(runner.post("interrupt", body).await.0, 200);
    let list = runner.until("gone", |list| !list["ended"].as_array().unwrap().is_empty()).await;
    assert_eq!(list["ended"][0]["exit"]["signal"], 2, "this one does not catch what interrupts its turn");
    runner.stop().await;
}
