//! A cursor is one of a start: good for as long as that engine's output is what is served, and for nothing else.

use std::sync::Arc;

use serde_json::{Value, json};
use sexton::protocol::Cursor;

use crate::support::daemon::{Daemon, home_of_a_past_life, start};
use crate::support::runner::{Engines, TestRunner};
use crate::support::stream::{Heard, Stream, at, events};

/// Says what it is told.
const ECHO: &str = r#"exec sed -u -n 's/.*"text":"\([^"]*\)".*/\1/p'"#;

async fn refused(runner: &TestRunner, cursor: &str) -> String {
    let answer = runner.ask_for_events("s1", &format!("cursor={cursor}")).await;
    assert_eq!(answer.status(), 416, "{cursor}");
    let answer: Value = answer.json().await.unwrap();
    assert_eq!((&answer["outcome"], &answer["session_id"]), (&json!("bad_request"), &json!("s1")));
    let page = runner.get(&format!("/coding/history?session_id=s1&after={cursor}")).await;
    assert_eq!(page["message"], answer["message"]);
    answer["message"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_an_earlier_start_is_refused_also_where_a_line_of_the_new_one_ends() {
    let runner = TestRunner::start().await;
    let script = "echo one; echo two; cat";
    runner.script("s1", script).await;
    let mut old = runner.listen("s1", "").await;
    assert_eq!((old.line().await, old.line().await), ("one".to_owned(), "two".to_owned()));
    assert_eq!(runner.force("s1", 1).await.0, 200);
    assert_eq!(old.rest().await.pop().unwrap().cursor, Some(at(8)));
    let rest = runner.listen("s1", "cursor=1-8").await.rest().await;
    assert_eq!(rest.len(), 1, "as long as there is no later start it is good for what is left");

    assert_eq!(runner.begin_as("s1", 2, "sh", &[script]).await.0, 200);
    let mut new = runner.listen("s1", "cursor=2-0").await;
    assert_eq!((new.line().await, new.line().await), ("one".to_owned(), "two".to_owned()));
    let why = refused(&runner, "1-8").await;
    assert_eq!(why, "the cursor 1-8 is of the start 1 of the session, and this is its start 2");
    for cursor in ["1-0", "1-4", "3-8", "3-0"] {
        refused(&runner, cursor).await;
    }
    assert_eq!(runner.listen("s1", "cursor=2-4").await.line().await, "two");
    assert_eq!(runner.force("s1", 2).await.0, 200);
    refused(&runner, "1-8").await;
    assert_eq!(runner.listen("s1", "cursor=2-8").await.rest().await.len(), 1);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bare_number_is_none() {
    let runner = TestRunner::start().await;
    runner.script("s1", "echo one; cat").await;
    for path in ["events?session_id=s1&cursor=4", "history?session_id=s1&after=4", "events?session_id=s1&cursor=01-4"] {
        let answer = runner.get(&format!("/coding/{path}")).await;
        let message = answer["message"].as_str().unwrap();
        assert_eq!(answer["outcome"], "bad_request");
        assert!(message.contains("only ids of events are"), "{message}");
    }
    runner.stop().await;
}

async fn say(daemon: &Daemon, text: &str) {
    let said = daemon.tell("messages", &json!({"session_id": "s1", "generation": 2, "text": text})).await;
    assert_eq!(said.0, 200, "{}", said.1);
}

async fn listen(daemon: &Daemon, cursor: Cursor) -> Stream {
    Stream::open(daemon.request(&events("s1", cursor))).await.unwrap()
}

/// Checks that an event is a line with a place of the first start.
fn is_line(heard: Option<Heard>, text: &str, offset: u64) {
    let heard = heard.unwrap();
    assert_eq!((heard.data["line"].as_str(), heard.cursor), (Some(text), Some(at(offset))), "{heard:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_adopted_keeps_its_cursors_over_a_kill_of_the_runner_and_its_own_end() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    daemon.begin("s1", ECHO).await;
    assert_eq!(daemon.say("s1", "one").await.0, 200);
    let mut stream = listen(&daemon, at(0)).await;
    is_line(stream.next().await, "one", 4);
    let mut second = start("s1", ECHO);
    second["generation"] = json!(2);
    let adopted = daemon.tell("start", &second).await;
    let told = (&adopted.1["session"]["generation"], &adopted.1["session"]["start"]);
    assert_eq!((adopted.0, told), (200, (&json!(2), &json!(1))), "{}", adopted.1);
    say(&daemon, "two").await;
    is_line(stream.next().await, "two", 8);

    daemon.kill();
    let daemon = Daemon::start(&home).await;
    daemon.ready().await;
    let live = daemon.get("/coding/live?session_id=s1").await;
    assert_eq!((&live["generation"], &live["cursor"]), (&json!(2), &json!("1-8")), "{live}");
    let mut stream = listen(&daemon, at(4)).await;
    is_line(stream.next().await, "two", 8);
    say(&daemon, "three").await;
    is_line(stream.next().await, "three", 14);
    let force = json!({"session_id": "s1", "generation": 2, "mode": "force", "reason": "ended_by_person"});
    assert_eq!(daemon.tell("end", &force).await.0, 200);
    let end = stream.next().await.unwrap();
    assert_eq!((&*end.kind, end.cursor, &end.data["generation"]), ("ended", Some(at(14)), &json!(2)));

    daemon.kill();
    let daemon = Daemon::start(&home).await;
    daemon.ready().await;
    let mut stream = listen(&daemon, at(8)).await;
    is_line(stream.next().await, "three", 14);
    assert_eq!(stream.next().await.unwrap().kind, "ended");
    let other = daemon.request(&events("s1", Cursor { start: 2, offset: 8 })).send().await.unwrap();
    assert_eq!(other.status(), 416, "no engine was launched under that generation");
    daemon.leave().await;
}
