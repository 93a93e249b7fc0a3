//! A machine that cannot be reached: when its idle rows are closed, and what the entry says.

use sexton::entry::EntryKind;
use sexton::report::{PartName, RunnerState};
use sexton::session::{Id, Session};
use sexton::time::{HOUR, MINUTE, SECOND};
use sexton::verdict::Verdict;

use crate::support::fake_runner::{Answering, Raw, Verb};
use crate::support::world::{World, id, kept, silent};

const WINDOW: i64 = 6 * HOUR;

/// A URL at which nothing listens.
async fn refusing() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

async fn assert_closed_as_gone(world: &World, session: &Session) {
    let row = world.read(session).await;
    assert_eq!(row.end_reason.as_deref(), Some("machine_gone"));
    let entries = world.entries(session, EntryKind::Ended).await;
    assert_eq!(entries.len(), 1);
    assert!(entries[0].message.contains("was not stopped"), "{}", entries[0].message);
    assert_eq!(entries[0].evidence["outcome"], "not_reached");
}

#[tokio::test]
async fn a_runner_that_was_never_reached_is_gone_at_once() {
    for url in [refusing().await, "http://no-such-host.invalid:7118".to_owned()] {
        let world = World::new().await;
        world.enrol_url("mac-mini", &url).await;
        let idle = world.session("idle", WINDOW, |_| ()).await;
        let young = world.session("young", WINDOW - 1, |_| ()).await;
        let report = world.sweep().await;
        assert_eq!(report.runners[0].state, RunnerState::Offline, "{url}");
        assert_eq!(report.part(PartName::Idle).reaped, 1, "{url}: {report:?}");
        assert_closed_as_gone(&world, &idle).await;
        assert!(world.read(&young).await.is_open(), "only idle rows, never all of the machine");
    }
}

#[tokio::test]
async fn a_runner_that_is_not_enrolled_is_gone_at_once() {
    let world = World::new().await;
    let idle = world.session("idle", WINDOW, |_| ()).await;
    let young = world.session("young", HOUR, |_| ()).await;
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
    assert_closed_as_gone(&world, &idle).await;
    assert!(world.read(&young).await.is_open());
}

#[tokio::test]
async fn a_runner_that_was_reached_is_gone_after_ten_minutes() {
    let world = World::new().await;
    let mut runner = world.runner().await;
    world.held(&runner, "idle", WINDOW - MINUTE).await;
    world.sweep().await;
    runner.die().await;
    world.clock.advance(10 * MINUTE - 1);
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Idle), Verdict::RunnerOffline), 1, "idle, and not gone yet");
    world.clock.advance(1);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
}

#[tokio::test]
async fn whatever_connected_is_not_gone() {
    for answering in
        [Answering::Raw(Raw::bare(401)), Answering::Raw(Raw::bare(500)), Answering::Reset, Answering::CutOff]
    {
        let world = World::new().await;
        let runner = world.runner().await;
        let idle = world.held(&runner, "idle", WINDOW).await;
        for verb in [Verb::Sessions, Verb::End] {
            runner.answer(verb, None, answering.clone());
        }
        for _ in 0..3 {
            let report = world.sweep().await;
            assert_eq!(report.part(PartName::Idle).reaped, 0, "{answering:?}: {report:?}");
            world.clock.advance(HOUR);
        }
        assert!(world.read(&idle).await.is_open(), "{answering:?}");
    }
}

#[tokio::test]
async fn just_after_a_boot_or_a_wake_up_the_fault_may_be_here() {
    let world = World::new().await;
    world.enrol_url("mac-mini", &refusing().await).await;
    let idle = world.session("idle", WINDOW, |_| ()).await;
    let unenrolled = world.session("unenrolled", WINDOW, |row| row.runner_id = id("other")).await;
    world.clock.set_uptime(2 * MINUTE - 1);
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Idle), Verdict::RunnerOffline), 2, "{report:?}");
    world.clock.advance(1);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 2);
    assert_closed_as_gone(&world, &idle).await;
    assert_closed_as_gone(&world, &unenrolled).await;

    let world = World::new().await;
    world.enrol_url("mac-mini", &refusing().await).await;
    world.sweep().await;
    world.clock.sleep(8 * HOUR);
    world.session("idle", WINDOW + 8 * HOUR, |_| ()).await;
    for passed in [0, 2 * MINUTE - 1] {
        world.clock.advance(passed);
        let report = world.sweep().await;
        assert_eq!(kept(report.part(PartName::Idle), Verdict::RunnerOffline), 1, "{passed} after the wake-up");
    }
    world.clock.advance(1);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
}

#[tokio::test]
async fn a_use_that_comes_while_the_machine_is_called_gone_keeps_the_row() {
    let world = World::new().await;
    let idle = world.session("idle", WINDOW, |_| ()).await;
    let read = world.read(&idle).await;
    let touched_at = world.now();
    let touch =
        sexton::store::Touch { id: idle.id.clone(), at: touched_at, kind: sexton::session::ActivityKind::Message };
    // What a pass does between its last look and its close.
    let decision = sexton::policy::Decision { verdict: Verdict::MachineGone, findings: Vec::new(), limit_ms: None };
    world.store().write_touches(&[touch]).await.unwrap();
    let grounds = sexton::timeline::Grounds::of(&read).with(&decision);
    let actor = sexton::verbs::person(&world.tools, "test");
    let entry = sexton::timeline::closed_without_stop(grounds, decision.verdict, "x", &actor, touched_at);
    let close = sexton::store::Close {
        session: &read,
        at: touched_at,
        reason: "machine_gone",
        guard: sexton::store::Guard::Unchanged,
        entry: &entry,
        item: None,
    };
    assert_eq!(world.store().close_session(&close).await.unwrap(), sexton::store::Closed::LostRace);
    assert!(world.read(&idle).await.is_open());
    assert!(world.entries(&idle, EntryKind::Ended).await.is_empty());
}

/// Closes a row as `machine_gone`, and brings the runner back with the engine that it held, in this state.
async fn back_again(state: sexton::protocol::EngineState) -> (World, crate::support::fake_runner::FakeRunner, Session) {
    let world = World::new().await;
    let mut runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW - HOUR).await;
    world.sweep().await;
    runner.die().await;
    world.clock.advance(HOUR);
    world.sweep().await;
    assert_closed_as_gone(&world, &session).await;
    world.clock.advance(1);
    let held: Id = session.id.clone();
    runner.hold_engine(&held, 1, state);
    runner.restart().await;
    (world, runner, session)
}

#[tokio::test]
async fn a_machine_that_returns_with_an_idle_engine_stops_it() {
    let (world, runner, session) = back_again(silent(7 * HOUR)).await;
    let report = world.sweep().await;
    assert_eq!(report.part(PartName::Strays).reaped, 1, "{report:?}");
    assert_eq!(runner.script().stops.len(), 1);
    let row = world.read(&session).await;
    assert_eq!(row.end_reason.as_deref(), Some("machine_gone"), "the row keeps its end");
    assert_eq!(world.entries(&session, EntryKind::Stopped).await.len(), 1);
    assert_eq!(world.entries(&session, EntryKind::Ended).await.len(), 1);
    assert!(runner.script().ended.is_empty(), "told to forget");
}

#[tokio::test]
async fn a_machine_that_returns_with_an_engine_in_use_reopens_the_row() {
    let (world, runner, session) = back_again(silent(30 * SECOND)).await;
    world.sweep().await;
    assert!(runner.script().stops.is_empty());
    let row = world.read(&session).await;
    assert!(row.is_open());
    assert_eq!((row.reopened, row.generation, row.last_activity_at), (1, 1, Some(world.now())));
    assert_eq!(world.entries(&session, EntryKind::Reopened).await.len(), 1);

    world.clock.advance(WINDOW);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1, "and is reaped again in its time");
    assert_eq!(world.entries(&session, EntryKind::Ended).await.len(), 2, "one end entry per reopening");
}
