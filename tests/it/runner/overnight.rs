//! What a night does to a session: hours pass on a clock that the test moves, and the runner is restarted in between.

use serde_json::json;
use sexton::time::{HOUR, MINUTE};

use crate::support::runner::{BACKGROUND, QUIET, TestRunner, ended, tracked};

const TURN: &str = r#"{"type":"turn_started"}"#;
const TURN_END: &str = r#"{"type":"turn_ended"}"#;

fn task(what: &str, id: &str) -> String {
    json!({"type": what, "id": id}).to_string()
}

async fn refused(runner: &TestRunner, because: &str, when: &str) {
    let (status, answer) = runner.end_if_idle("s1").await;
    assert_eq!((status, answer["because"].as_str()), (409, Some(because)), "{when}: {answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_night_of_background_work_is_kept_and_reaped_six_waking_hours_after_the_last_of_it() {
    let mut runner = TestRunner::start().await;
    let film = runner.film("s1").await;
    let client = runner.listen("s1", "client=laptop").await;
    film.says(&[TURN, &task("background_started", "loop"), TURN_END]);
    runner.until_tracked("s1", "at work", |one| one["background_tasks"] == 1 && one["generating"] == false).await;
    drop(client);
    runner.until_tracked("s1", "left alone", |one| one["attached"] == 0).await;

    // Longer than a silent task is believed: this one works.
    let hours = BACKGROUND / HOUR + 6;
    for hour in 1..=hours {
        runner.clock.advance(HOUR);
        film.says(&[&task("output", "loop")]);
        runner.until_tracked("s1", "heard", |one| one["background_silent_ms"] == 0).await;
        refused(&runner, "background_tasks", &format!("hour {hour}")).await;
        if hour % 7 == 0 {
            runner.clock.sleep(2 * HOUR);
            runner = runner.again().await;
        }
    }
    film.says(&[&task("background_started", "second")]);
    runner.until_tracked("s1", "two at work", |one| one["background_tasks"] == 2).await;
    runner.clock.advance(HOUR);
    film.says(&[&task("background_ended", "loop")]);
    runner.until_tracked("s1", "one at work", |one| one["background_tasks"] == 1).await;
    runner.clock.advance(QUIET + HOUR);
    refused(&runner, "background_tasks", "the second goes on in silence").await;
    runner = runner.again().await;
    film.says(&[&task("background_ended", "second")]);
    let morning = runner.until_tracked("s1", "done", |one| one["background_tasks"] == 0).await;
    assert_eq!(morning["idle_ms"], 0, "it is idle only from now on");

    runner.clock.advance(QUIET / 2);
    runner.clock.sleep(8 * HOUR);
    runner = runner.again().await;
    assert_eq!(
        tracked(&runner.list().await, "s1").unwrap()["idle_ms"],
        QUIET / 2,
        "neither sleep nor a restart counts"
    );
    runner.clock.advance(QUIET / 2 - 1);
    refused(&runner, "active", "a millisecond before").await;
    runner.clock.advance(1);
    let (status, answer) = runner.end_if_idle("s1").await;
    assert_eq!((status, answer["outcome"].as_str(), answer["reason"].as_str()), (200, Some("stopped"), Some("idle")));
    assert!(ended(&runner.list().await, "s1").is_some());
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_a_loop_keeps_using_is_never_touched() {
    let mut runner = TestRunner::start().await;
    let film = runner.film("s1").await;
    film.says(&[TURN, TURN_END]);
    runner.until_tracked("s1", "quiet", |one| one["generating"] == false).await;
    // Two days, by people and by the engine's own turns.
    for quarter in 0..192 {
        runner.clock.advance(15 * MINUTE);
        refused(&runner, "active", &format!("quarter {quarter}")).await;
        if quarter % 2 == 0 {
            assert_eq!(runner.touch("s1").await.0, 200);
        } else {
            film.says(&[TURN, TURN_END]);
            runner.until_tracked("s1", "used", |one| one["idle_ms"] == 0 && one["generating"] == false).await;
        }
        if quarter % 48 == 47 {
            runner = runner.again().await;
        }
    }
    assert!(tracked(&runner.list().await, "s1").is_some());
    runner.stop().await;
}
