//! Activity over the API: what it writes, how seldom, and that nothing of it is lost.

use futures_util::future::join_all;
use serde_json::json;
use sexton::activity::Heard;
use sexton::api::Reach;
use sexton::clock::{Clock, SystemClock};
use sexton::session::{ActivityKind, Session, Status};
use sexton::time::{HOUR, MINUTE, SECOND};

use crate::api::secrets::Log;
use crate::api::{Host, ME};
use crate::support::fake_runner::{Answering, Verb};
use crate::support::world::{World, silent};

const SESSION: &str = "/v1/sessions/s/activity";

async fn count(host: &Host, name: &str) -> u64 {
    let text = String::from_utf8(host.get("/metrics").await.body.to_vec()).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("sexton_{name}_total "))).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Runs a statement beside the program, as a fault of the store or another process would.
async fn beside(world: &World, sql: &'static str) {
    sqlx::query(sql).execute(&mut world.connection().await).await.unwrap();
}

/// Lets the gatherer write what is due at the time that the clock shows.
async fn settle(host: &Host) {
    host.worker.recorder.write_due().await;
}

#[tokio::test]
async fn each_kind_is_a_use_and_goes_to_the_runner_first() {
    for kind in ActivityKind::ALL {
        let host = Host::new().await;
        let runner = host.world.runner().await;
        let session = host.world.session("s", 5 * HOUR, |_| ()).await;
        runner.hold_engine(&session.id, 1, silent(5 * HOUR));

        let answer = host.post(SESSION, json!({"kind": kind})).await.ok();

        assert_eq!(answer, json!({"session_id": "s", "recorded": true, "runner": Reach::Touched}));
        settle(&host).await;
        let row = host.world.read(&session).await;
        assert_eq!((row.last_activity_at, row.last_activity_kind), (Some(host.world.now()), Some(*kind)));
        assert_eq!(runner.calls_of(Verb::Touch)[0].body["kind"], kind.as_str());
    }
}

#[tokio::test]
async fn twenty_polls_in_a_minute_write_one_row_and_then_exactly() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(HOUR));
    let began = host.world.now();

    for _ in 0..20 {
        host.post(SESSION, json!({"kind": "capture"})).await.ok();
        settle(&host).await;
        host.world.clock.advance(3 * SECOND);
    }

    assert_eq!(host.world.now(), began.plus(MINUTE));
    assert_eq!(count(&host, "activity_rows").await, 1, "nineteen of twenty write nothing");
    assert_eq!(host.world.read(&session).await.last_activity_at, Some(began));
    assert_eq!(runner.calls_of(Verb::Touch).len(), 1, "the runner has heard of it a short while ago");
    settle(&host).await;
    assert_eq!(host.world.read(&session).await.last_activity_at, Some(began.plus(57 * SECOND)), "exact");
    host.world.clock.advance(10 * MINUTE);
    settle(&host).await;
    assert_eq!(count(&host, "activity_rows").await, 2);
}

#[tokio::test]
async fn a_runner_that_cannot_be_reached_stops_no_touch() {
    let host = Host::new().await;
    host.world.enrol_url("mac-mini", "http://127.0.0.1:9").await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    let answer = host.post(SESSION, json!({"kind": "capture"})).await.ok();
    assert_eq!((&answer["runner"], &answer["recorded"]), (&json!("unreached"), &json!(true)));
    assert_eq!(host.world.read(&session).await.last_activity_at, Some(host.world.now()), "committed when answered");
}

#[tokio::test]
async fn a_touch_of_an_ended_engine_closes_the_row_and_tells_why() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(HOUR));
    runner.script().end_by_itself(&session.id, "exited", &host.world.clock);

    let answer = host.post(SESSION, json!({"kind": "capture"})).await;

    assert_eq!(answer.error(), (410, "ended".to_owned()));
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("exited"));
    let row = host.world.read(&session).await;
    assert_eq!((row.status, row.end_reason.as_deref()), (Status::Ended, Some("exited")));
    assert_eq!(row.last_activity_at, session.last_activity_at, "it was no use");
    assert_eq!(host.post(SESSION, json!({"kind": "capture"})).await.error(), (410, "ended".to_owned()));
}

#[tokio::test]
async fn a_touch_that_the_runner_does_not_take_is_told_and_is_no_use() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    assert_eq!(host.post(SESSION, json!({"kind": "capture"})).await.error(), (404, "not_tracked".to_owned()));
    runner.hold_engine(&session.id, 2, silent(HOUR));
    assert_eq!(host.post(SESSION, json!({"kind": "capture"})).await.error(), (409, "generation".to_owned()));
    settle(&host).await;
    let row = host.world.read(&session).await;
    assert_eq!((row.status, row.last_activity_at), (Status::Active, session.last_activity_at));
}

#[tokio::test]
async fn the_runner_hears_again_before_a_twelfth_of_the_window_is_over() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(HOUR));
    for (wait, calls) in [(0, 1), (29 * MINUTE, 1), (MINUTE, 2)] {
        host.world.clock.advance(wait);
        host.post(SESSION, json!({"kind": "capture"})).await.ok();
        assert_eq!(runner.calls_of(Verb::Touch).len(), calls, "after {wait} ms more");
    }
    runner.answer(Verb::Touch, None, Answering::Reset);
    host.world.clock.advance(30 * MINUTE);
    assert_eq!(host.post(SESSION, json!({"kind": "capture"})).await.ok()["runner"], "unreached");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_sessions_polled_every_three_seconds_stay_under_five_transactions_a_second() {
    const SESSIONS: usize = 10_000;
    const ROUNDS: u64 = 30;
    let host = Host::new().await;
    let rows: Vec<Session> = (0..SESSIONS).map(|at| host.world.row(&format!("s-{at}"), HOUR)).collect();
    host.world.store().import_sessions(&rows, ME, |_| None).await.unwrap();
    for row in &rows {
        // Their runner knows of them, so each touch is about the row alone.
        host.worker.recorder.hear(row);
    }
    let began = SystemClock.awake();

    for _ in 0..ROUNDS {
        let touches = rows.iter().map(|row| host.worker.recorder.touch(row, ActivityKind::Capture));
        assert!(join_all(touches).await.iter().all(Result::is_ok));
        host.world.clock.advance(3 * SECOND);
    }

    let writes = count(&host, "activity_writes").await;
    let passed = (SystemClock.awake() - began).unsigned_abs() / 1_000 + 1;
    assert!(writes <= 5 * passed && writes <= 5 * 3 * ROUNDS, "{writes} in {passed} s");
    let written = count(&host, "activity_rows").await;
    assert!((SESSIONS as u64..=3 * SESSIONS as u64).contains(&written), "{written} rows in 90 s of polls");
    host.worker.recorder.flush().await;
    let last = host.world.now().minus(3 * SECOND);
    let exact = host.world.store().list_sessions(&sexton::store::SessionFilter::default()).await.unwrap();
    assert!(exact.iter().all(|row| row.last_activity_at == Some(last)));
}

#[tokio::test]
async fn polls_at_once_are_gathered() {
    let host = Host::new().await;
    host.world.enrol_url("mac-mini", "http://127.0.0.1:9").await;
    let names: Vec<String> = (0..50).map(|at| format!("s-{at}")).collect();
    for name in &names {
        host.world.session(name, HOUR, |_| ()).await;
    }
    let polls = names.iter().map(|name| {
        let path = format!("/v1/sessions/{name}/activity");
        let host = &host;
        async move { host.post(&path, json!({"kind": "capture"})).await.ok()["runner"].clone() }
    });
    let answers = join_all(polls).await;
    assert!(answers.iter().all(|runner| runner == "unreached"));
    assert_eq!(count(&host, "activity_rows").await, 50);
    assert!(count(&host, "activity_writes").await < 25);
}

#[tokio::test]
async fn a_step_of_the_wall_clock_neither_holds_back_nor_hurries_a_touch() {
    for step in [-24 * HOUR, 24 * HOUR] {
        let host = Host::new().await;
        let runner = host.world.runner().await;
        let session = host.world.session("s", HOUR, |_| ()).await;
        runner.hold_engine(&session.id, 1, silent(HOUR));
        host.post(SESSION, json!({"kind": "capture"})).await.ok();
        settle(&host).await;
        let before = host.world.now();

        host.world.clock.step_wall(step);
        host.world.clock.advance(3 * SECOND);
        host.post(SESSION, json!({"kind": "message"})).await.ok();
        settle(&host).await;
        assert_eq!(count(&host, "activity_rows").await, 1, "held back within its minute, {step}");
        host.world.clock.advance(57 * SECOND);
        settle(&host).await;

        assert_eq!(count(&host, "activity_rows").await, 2, "written once its minute ended, {step}");
        let stored = host.world.read(&session).await.last_activity_at.unwrap();
        assert_eq!(stored, before.max(before.plus(step + 3 * SECOND)), "forward only, {step}");
        assert_eq!(runner.calls_of(Verb::Touch).len(), 1);
    }
}

#[tokio::test]
async fn a_store_that_fails_is_answered_as_such_and_told_once_and_nothing_is_lost() {
    let (log, _guard) = Log::start();
    let host = Host::new().await;
    host.world.enrol_url("mac-mini", "http://127.0.0.1:9").await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    let used = host.world.now();
    beside(&host.world, "CREATE TRIGGER full BEFORE UPDATE ON sessions BEGIN SELECT RAISE(ABORT, 'full'); END").await;

    for _ in 0..2 {
        assert_eq!(host.post(SESSION, json!({"kind": "capture"})).await.error(), (503, "store".to_owned()));
    }
    assert!(!host.worker.recorder.write_due().await, "it is tried again");
    assert_eq!(log.text().matches("could not be written").count(), 1, "{}", log.text());
    host.world.clock.advance(SECOND);
    beside(&host.world, "DROP TRIGGER full").await;
    settle(&host).await;

    assert_eq!(host.world.read(&session).await.last_activity_at, Some(used), "held on to");
    assert_eq!(log.text().matches("activity is written again").count(), 1, "{}", log.text());
}

#[tokio::test]
async fn a_touch_of_a_row_that_was_closed_meanwhile_is_not_taken_for_a_use() {
    let host = Host::new().await;
    host.world.enrol_url("mac-mini", "http://127.0.0.1:9").await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    beside(&host.world, "UPDATE sessions SET status = 'ended', ended_at = 1, end_reason = 'idle'").await;

    let heard = host.worker.recorder.touch(&session, ActivityKind::Capture).await.unwrap();

    assert_eq!(heard, Heard::Ended("idle".to_owned()));
    let once = sexton::activity::touch_once(&host.world.tools, &session, ActivityKind::Capture).await.unwrap();
    assert_eq!(once, Heard::Ended("idle".to_owned()));
    assert_eq!(count(&host, "activity_rows").await, 0);
}
