//! The worker's own work: what it forgets after a whole pass, and how it bears a store that fails.

use sexton::entry::EntryKind;
use sexton::report::{PartName, Trigger};
use sexton::session::{Session, Status};
use sexton::store::Store;
use sexton::sweep::{Request, sweep};
use sexton::time::{HOUR, Ms};
use sexton::worker::Worker;
use tokio_util::sync::CancellationToken;

use crate::api::secrets::Log;
use crate::support::fake_runner::{Answering, Raw, Verb};
use crate::support::world::{World, silent};

const DAY: Ms = 24 * HOUR;

/// Puts in a session that ended so long ago.
async fn ended(world: &World, name: &str, ago: Ms) -> Session {
    let at = world.now().minus(ago);
    let end = |row: &mut Session| {
        row.status = Status::Ended;
        row.ended_at = Some(at);
        row.end_reason = Some("idle".to_owned());
    };
    world.session(name, ago, end).await
}

async fn is_there(store: &Store, session: &Session) -> bool {
    store.find_session(&session.id).await.unwrap().is_some()
}

async fn pass(world: &World, request: Request) {
    sweep(&world.tools, request, CancellationToken::new()).await.unwrap();
}

fn scheduled() -> Request {
    Request::all(Trigger::Schedule)
}

#[tokio::test]
async fn ended_rows_are_forgotten_after_their_time_by_whole_passes_of_the_schedule() {
    let world = World::new().await;
    let _runner = world.runner().await;
    let old = ended(&world, "old", 90 * DAY).await;
    let young = ended(&world, "young", 90 * DAY - 1).await;
    let open = world.session("open", 0, |_| ()).await;
    let not_whole = [
        Request { dry_run: true, ..scheduled() },
        Request { only: vec![PartName::Runs], ..scheduled() },
        Request::all(Trigger::Manual),
        Request::all(Trigger::Api),
    ];
    for request in not_whole {
        pass(&world, request.clone()).await;
        assert!(is_there(world.store(), &old).await, "{request:?}");
    }

    pass(&world, scheduled()).await;

    assert!(!is_there(world.store(), &old).await);
    assert!(is_there(world.store(), &young).await && is_there(world.store(), &open).await);
    assert_eq!(world.entries(&old, EntryKind::Started).await.len(), 1, "its entries have a time of their own");
}

#[tokio::test]
async fn a_row_is_not_forgotten_while_a_runner_tracks_or_remembers_it() {
    let world = World::new().await;
    let runner = world.runner().await;
    let tracked = ended(&world, "tracked", 100 * DAY).await;
    let remembered = ended(&world, "remembered", 100 * DAY).await;
    runner.hold_engine(&tracked.id, 2, silent(0));
    runner.hold_engine(&remembered.id, 2, silent(0));
    runner.script().end_by_itself(&remembered.id, "exited", &world.clock);
    runner.answer(Verb::Forget, None, Answering::Raw(Raw::bare(500)));

    pass(&world, scheduled()).await;

    assert!(is_there(world.store(), &tracked).await && is_there(world.store(), &remembered).await);
}

#[tokio::test]
async fn nothing_of_a_runner_that_did_not_answer_is_forgotten() {
    for answering in [Answering::Raw(Raw::json(200, r#"{"tracked":null}"#)), Answering::Reset] {
        let world = World::new().await;
        let runner = world.runner().await;
        let old = ended(&world, "old", 100 * DAY).await;
        runner.answer(Verb::Sessions, None, answering);
        pass(&world, scheduled()).await;
        assert!(is_there(world.store(), &old).await);
        runner.answer(Verb::Sessions, None, Answering::Truly);
        pass(&world, scheduled()).await;
        assert!(!is_there(world.store(), &old).await);
    }
}

#[tokio::test]
async fn a_store_that_fails_is_told_once_and_the_worker_lives_on() {
    let (log, _guard) = Log::start();
    let world = World::with(|config| config.schedule.sweep = "0 0 0 1 1 *".to_owned()).await;
    let (worker, work) = Worker::new(&world.tools).unwrap();
    let stop = CancellationToken::new();
    let working = tokio::spawn(work.run(stop.clone(), stop.clone()));
    assert!(worker.sweeps.run_now(scheduled()).await.unwrap().is_ok());
    assert_eq!(worker.trouble.now(), None);
    world.store().close().await;

    for _ in 0..3 {
        assert!(worker.sweeps.run_now(scheduled()).await.unwrap().is_err());
    }

    assert!(worker.trouble.now().unwrap().contains("sexton.db"));
    assert_eq!(log.text().matches("a pass failed").count(), 1, "{}", log.text());
    assert_eq!(worker.sweeps.status().passes, 4);
    stop.cancel();
    working.await.unwrap().unwrap();
}

#[tokio::test]
async fn one_line_tells_of_a_pass_in_which_something_happened() {
    let (log, _guard) = Log::start();
    let world = World::with(|config| config.schedule.sweep = "0 0 0 1 1 *".to_owned()).await;
    let runner = world.runner().await;
    let session = world.session("s", 6 * HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(6 * HOUR));
    let (worker, work) = Worker::new(&world.tools).unwrap();
    let stop = CancellationToken::new();
    let working = tokio::spawn(work.run(stop.clone(), stop.clone()));

    let report = worker.sweeps.run_now(scheduled()).await.unwrap().unwrap();

    let text = log.text();
    let line = text.lines().find(|line| line.contains("swept")).unwrap();
    for piece in ["INFO", &format!("sweep_id={}", report.sweep_id), "trigger=schedule", "reaped=1", "errors=0"] {
        assert!(line.contains(piece), "no {piece} in {line}");
    }
    worker.sweeps.run_now(scheduled()).await.unwrap().unwrap();
    assert_eq!(log.text().lines().filter(|line| line.contains("INFO") && line.contains("swept")).count(), 1);
    stop.cancel();
    working.await.unwrap().unwrap();
}
