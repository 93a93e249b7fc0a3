//! Idle sessions: what is reaped, what is kept, and that the engine is stopped before the row is closed.

use sexton::entry::EntryKind;
use sexton::protocol::{EngineState, Told};
use sexton::report::{PartName, RunnerState};
use sexton::session::Status;
use sexton::time::{HOUR, MINUTE};
use sexton::verdict::Verdict;

use crate::support::fake_runner::{Answering, Raw, Verb};
use crate::support::world::{World, kept, silent};

const WINDOW: i64 = 6 * HOUR;

#[tokio::test]
async fn at_exactly_the_limit_it_is_reaped_and_one_millisecond_before_it_is_not() {
    let world = World::new().await;
    let runner = world.runner().await;
    let due = world.session("due", WINDOW, |_| ()).await;
    let early = world.session("early", WINDOW - 1, |_| ()).await;
    runner.hold_engine(&due.id, 1, silent(WINDOW));
    runner.hold_engine(&early.id, 1, silent(WINDOW));

    let report = world.sweep().await;

    let idle = report.part(PartName::Idle);
    assert_eq!((idle.examined, idle.reaped), (1, 1), "{idle:?}");
    assert_eq!(world.read(&due).await.end_reason.as_deref(), Some("idle"));
    assert_eq!(world.read(&early).await.status, Status::Active);
    assert_eq!(report.runners[0].state, RunnerState::Live);
    let entries = world.entries(&due, EntryKind::Ended).await;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].reason.as_deref(), Some("idle"));
    assert!(world.sweep().await.part(PartName::Idle).reaped == 0, "a second pass finds nothing");
}

#[tokio::test]
async fn the_engine_is_stopped_before_the_row_is_closed() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.session("s", WINDOW, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(WINDOW));
    let clock = world.clock.clone();
    runner.hook(Verb::End, crate::support::fake_runner::When::Decided, move |_| {
        clock.advance(5);
        std::future::ready(())
    });

    world.sweep().await;

    let stopped = runner.script().stops[0].at;
    assert!(stopped < world.read(&session).await.ended_at.unwrap());
}

#[tokio::test]
async fn a_stop_that_fails_leaves_the_row_open() {
    for answer in [Raw::bare(500), Raw::bare(401), Raw::json(200, "<html>"), Raw::bare(302)] {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = world.session("s", WINDOW, |_| ()).await;
        runner.hold_engine(&session.id, 1, silent(WINDOW));
        runner.answer(Verb::End, None, Answering::Raw(answer.clone()));

        let report = world.sweep().await;

        let idle = report.part(PartName::Idle);
        assert_eq!(kept(idle, Verdict::StopFailed), 1, "{answer:?} {idle:?}");
        assert_eq!(idle.errors.len(), 1);
        assert!(world.read(&session).await.is_open());
        assert!(world.entries(&session, EntryKind::Ended).await.is_empty());
    }
}

#[tokio::test]
async fn a_working_engine_keeps_its_session_and_that_is_activity() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.session("s", WINDOW, |_| ()).await;
    let state = EngineState { background_tasks: Told::Is(1), background_silent_ms: Some(MINUTE), ..silent(WINDOW) };
    runner.hold_engine(&session.id, 1, state);

    let report = world.sweep().await;

    assert_eq!(report.part(PartName::Idle).reaped, 0);
    assert_eq!(world.read(&session).await.last_activity_at, Some(world.now()));
    assert!(runner.calls_of(Verb::End).is_empty());
}
