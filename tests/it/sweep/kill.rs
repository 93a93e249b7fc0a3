//! A worker that is killed at any point between observe, stop and close: the next pass finishes what it began, with the
//! original reason and exactly one entry.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use sexton::entry::EntryKind;
use sexton::session::Session;
use sexton::time::{HOUR, MINUTE};
use sqlx::Connection;

use crate::support::fake_runner::{FakeRunner, Verb, When};
use crate::support::world::{World, store_url};

const WINDOW: i64 = 6 * HOUR;

/// Under this name the killed process is told which store it sweeps.
const STORE: &str = "SEXTON_TEST_STORE";

/// The process that is killed: it makes one pass over the store that it is told. Not a test by itself.
#[tokio::test]
#[ignore = "run by the other tests in a process of its own"]
async fn the_worker_that_is_killed() {
    let Ok(url) = std::env::var(STORE) else { return };
    let world = World::on(&url).await;
    world.sweep().await;
}

fn start_worker(world: &World) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sweep::kill::the_worker_that_is_killed", "--ignored", "--nocapture"])
        .env(STORE, store_url(&world.folder))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn kill(mut worker: Child) {
    worker.kill().unwrap();
    assert!(!worker.wait().unwrap().success(), "it was killed before it was done");
}

/// Makes passes until nothing is left to do, and checks that everything was finished as it was begun.
async fn finishes(point: &str, world: &World, runner: &FakeRunner, session: &Session) {
    let report = world.sweep().await;
    let row = world.read(session).await;
    assert_eq!(row.end_reason.as_deref(), Some("idle"), "{point}: {report:?}");
    let entries = world.entries(session, EntryKind::Ended).await;
    assert_eq!(entries.len(), 1, "{point}");
    assert!(world.entries(session, EntryKind::Stopped).await.is_empty(), "{point}");
    assert_eq!(runner.script().stops.len(), 1, "{point}: stopped once");
    assert!(runner.script().stops[0].at <= row.ended_at.unwrap(), "{point}");
    let asked_by = runner.script().stops[0].sweep_id.clone();
    assert_eq!(entries[0].evidence["sweep_id"], json!(asked_by), "{point}: the pass that asked for the stop");
    world.clock.advance(MINUTE);
    let again = world.sweep().await;
    assert_eq!(again.parts.values().map(|part| part.examined).sum::<u64>(), 0, "{point}: {again:?}");
    assert!(runner.script().ended.is_empty(), "{point}: told to forget");
    let mut connection = world.connection().await;
    let check: String = sqlx::query_scalar("PRAGMA quick_check").fetch_one(&mut connection).await.unwrap();
    assert_eq!(check, "ok", "{point}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_the_runner_holds_its_call() {
    for (verb, when) in [
        (Verb::Sessions, When::Arrived),
        (Verb::Sessions, When::Decided),
        (Verb::End, When::Arrived),
        (Verb::End, When::Decided),
        (Verb::Forget, When::Arrived),
        (Verb::Forget, When::Decided),
    ] {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = world.held(&runner, "s", WINDOW).await;
        let gate = runner.hold(verb, when);
        let worker = start_worker(&world);
        gate.reached().await;
        kill(worker);
        gate.open();
        finishes(&format!("{verb:?} {when:?}"), &world, &runner, &session).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_the_answer_and_the_close() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW).await;
    let mut lock = world.connection().await;
    let gate = runner.hold(Verb::End, When::Decided);
    let worker = start_worker(&world);
    gate.reached().await;
    // Another writer: the worker gets its answer, and waits for its turn to close the row.
    sqlx::query("BEGIN IMMEDIATE").execute(&mut lock).await.unwrap();
    gate.open();
    // Nothing outside tells that it waits; killed earlier, it was killed at the point before, which is as good.
    tokio::time::sleep(Duration::from_millis(100)).await;
    kill(worker);
    sqlx::query("ROLLBACK").execute(&mut lock).await.unwrap();
    lock.close().await.unwrap();
    assert!(world.read(&session).await.is_open());
    finishes("answered", &world, &runner, &session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_among_many_sessions_at_any_of_them() {
    let world = World::new().await;
    let runner = world.runner().await;
    let mut sessions = Vec::new();
    for number in 0..40 {
        sessions.push(world.held(&runner, &format!("s-{number}"), WINDOW).await);
    }
    for count in [5, 8, 12, 20] {
        let before = runner.calls_of(Verb::End).len();
        let worker = start_worker(&world);
        let left = runner.script().engines.len();
        runner.wait_for(Verb::End, before + count.min(left)).await;
        kill_or_done(worker);
        if runner.script().engines.is_empty() {
            break;
        }
    }
    for _ in 0..2 {
        world.sweep().await;
        world.clock.advance(MINUTE);
    }
    for session in &sessions {
        assert_eq!(world.read(session).await.end_reason.as_deref(), Some("idle"));
        assert_eq!(world.entries(session, EntryKind::Ended).await.len(), 1);
        let stops = runner.script().stops.iter().filter(|stop| stop.session_id == session.id).count();
        assert_eq!(stops, 1);
    }
    assert!(runner.script().ended.is_empty());
}

fn kill_or_done(mut worker: Child) {
    worker.kill().unwrap();
    worker.wait().unwrap();
}
