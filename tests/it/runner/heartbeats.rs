//! What the runner does of its own accord: it notices stalls, and stops idle engines where no worker does.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use sexton::runner::Settings;

use crate::support::processes::is_alive;
use crate::support::runner::{AWAITING, QUIET, STALLED, TestRunner, ended, tracked};

const TURN: &str = r#"{"type":"turn_started"}"#;
const TURN_END: &str = r#"{"type":"turn_ended"}"#;

/// Polls something that no call may be made for.
async fn until(what: &str, mut fits: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if fits() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_turn_is_shown_protects_no_more_and_is_kept_until_its_idle_window_is_over() {
    let runner = TestRunner::start().await;
    let film = runner.film("s1").await;
    film.says(&[TURN]);
    runner.until_tracked("s1", "in its turn", |one| one["generating"] == true).await;
    for (wait, stalled, because) in
        [(STALLED - 1, false, "generating"), (1, true, "active"), (QUIET - STALLED - 1, true, "active")]
    {
        runner.clock.advance(wait);
        assert_eq!(tracked(&runner.list().await, "s1").unwrap()["stalled"], stalled);
        assert_eq!(runner.end_if_idle("s1").await.1["because"], because);
    }
    film.says(&["a long test run comes to its end"]);
    let one = runner.until_tracked("s1", "heard", |one| one["idle_ms"] == 0).await;
    assert_eq!((&one["stalled"], &one["generating"]), (&json!(false), &json!(true)));
    runner.clock.advance(QUIET);
    let (status, answer) = runner.end_if_idle("s1").await;
    assert_eq!((status, answer["outcome"].as_str()), (200, Some("stopped")));
    runner.stop().await;
}

fn count(file: &Path) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_turn_is_interrupted_once_each_time_and_never_while_it_waits_for_a_person() {
    let wanted = |settings: &mut Settings| settings.interrupt_stalled = true;
    let mut runner = TestRunner::start_with(wanted).await;
    let (told, word) = (runner.home.path().join("interrupted"), runner.home.path().join("word"));
    let script = format!(
        "trap 'echo x >> {}' INT; echo '{TURN}'; while :; do [ -e {word} ] && mv {word} {word}.said && cat {word}.said; sleep 0.02; done",
        told.display(),
        word = word.display()
    );
    runner.script("s1", &script).await;
    let say = |line: &str| {
        let beside = word.with_extension("new");
        std::fs::write(&beside, format!("{line}\n")).unwrap();
        std::fs::rename(beside, &word).unwrap();
    };
    runner.until_tracked("s1", "in its turn", |one| one["generating"] == true).await;
    runner.clock.advance(STALLED);
    until("interrupted", || count(&told) == 1).await;
    // More rounds, in this life and the next.
    for _ in 0..2 {
        runner.clock.advance(STALLED);
        for _ in 0..30 {
            runner.list().await;
        }
        runner = runner.again_with(wanted).await;
    }
    assert_eq!(count(&told), 1, "once for each stall");

    say(r#"{"type":"awaiting_input"}"#);
    runner.until_tracked("s1", "asking", |one| one["awaiting_input"] == true).await;
    runner.clock.advance(QUIET);
    let one = runner.until_tracked("s1", "asking", |one| one["awaiting_ms"] == QUIET).await;
    assert_eq!(one["stalled"], false);
    say(r#"{"type":"input_received"}"#);
    runner.until_tracked("s1", "answered", |one| one["awaiting_input"] == false).await;
    assert_eq!(count(&told), 1, "a question is no stall");
    runner.clock.advance(STALLED);
    until("interrupted again", || count(&told) >= 2).await;
    assert_eq!(count(&told), 2);
    assert!(tracked(&runner.list().await, "s1").is_some(), "an interruption ends no session");
    runner.stop().await;
}

fn pid(runner: &Value, id: &str) -> i32 {
    i32::try_from(tracked(runner, id).unwrap()["pid"].as_i64().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_worker_only_what_is_idle_is_stopped_and_only_if_that_is_wanted() {
    let mut runner = TestRunner::start().await;
    runner.sample("idle", &["idle"]).await;
    let working = format!("echo '{TURN}'; while :; do echo x; sleep 0.02; done");
    runner.script("turn", &working).await;
    let task = runner.film("task").await;
    task.says(&[TURN, r#"{"type":"background_started","id":"b"}"#, TURN_END]);
    let question = runner.film("question").await;
    question.says(&[TURN, r#"{"type":"awaiting_input"}"#, TURN_END]);
    runner.until_tracked("idle", "quiet", |one| one["generating"] == false).await;
    runner.until_tracked("task", "at work", |one| one["background_tasks"] == 1 && one["generating"] == false).await;
    runner.until_tracked("question", "asking", |one| one["awaiting_input"] == true && one["generating"] == false).await;
    let list = runner.list().await;
    let pids = ["idle", "turn", "task", "question"].map(|id| pid(&list, id));

    runner.clock.advance(2 * QUIET);
    let wanted = |settings: &mut Settings| settings.idle_after = Some(QUIET);
    runner = runner.again_with(wanted).await;
    assert!(pids.iter().all(|pid| is_alive(*pid)), "by default nothing is stopped, and a start counts as a call");
    runner.clock.advance(QUIET - 1);
    let unauthorised = runner.request(reqwest::Method::GET, "/coding/sessions").send().await.unwrap();
    assert_eq!(unauthorised.status(), 401);
    runner.list().await;
    runner.clock.advance(QUIET - 1);
    // Meanwhile the one in its turn says something again.
    for _ in 0..100 {
        let unauthorised = runner.request(reqwest::Method::GET, "/coding/sessions").send().await.unwrap();
        assert_eq!(unauthorised.status(), 401);
    }
    assert!(pids.iter().all(|pid| is_alive(*pid)), "somebody was heard a millisecond too late");
    runner.clock.advance(1);
    until("the idle one stopped", || !is_alive(pids[0])).await;
    runner = runner.again_with(wanted).await;
    let list = runner.until("recorded", |list| ended(list, "idle").is_some()).await;
    let record = ended(&list, "idle").unwrap();
    assert_eq!((record["reason"].as_str(), record["sweep_id"].as_str()), (Some("idle"), None));
    assert!(pids[1..].iter().all(|pid| is_alive(*pid)), "a turn, a task and a question protect");

    // A clock that jumps past its limit would make it look silent for that long.
    assert_eq!(runner.force("turn", 1).await.0, 200);
    runner.clock.advance(AWAITING);
    until("the others stopped", || !is_alive(pids[2]) && !is_alive(pids[3])).await;
    let list =
        runner.until("recorded", |list| ended(list, "question").is_some() && ended(list, "task").is_some()).await;
    assert_eq!(ended(&list, "question").unwrap()["reason"], "awaiting_expired");
    assert_eq!(ended(&list, "task").unwrap()["reason"], "idle");
    runner.stop().await;
}
