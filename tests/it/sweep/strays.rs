//! Engines that do not fit their row: who is stopped, who is reopened, who is left alone.

use sexton::entry::EntryKind;
use sexton::protocol::{EngineState, Told};
use sexton::report::PartName;
use sexton::session::{Session, Status};
use sexton::time::{HOUR, MINUTE};
use sexton::verdict::Verdict;

use crate::support::fake_runner::{FakeRunner, Verb};
use crate::support::world::{World, id, kept, silent};

const WINDOW: i64 = 6 * HOUR;

/// A row that ended an hour ago as `orphaned`, with no word about its engine.
async fn ended(world: &World, name: &str) -> Session {
    let at = world.now().minus(HOUR);
    world
        .session(name, 2 * HOUR, |row| {
            row.status = Status::Ended;
            (row.ended_at, row.end_reason) = (Some(at), Some("orphaned".to_owned()));
        })
        .await
}

async fn second_runner(world: &World) -> FakeRunner {
    let runner = FakeRunner::with_clock(std::sync::Arc::new(world.clock.clone())).await;
    runner.script().runner_id = id("tower");
    world.enrol(&runner, "tower").await;
    runner
}

#[tokio::test]
async fn a_stray_is_stopped_at_exactly_its_window() {
    for (idle, stopped) in [(WINDOW - 1, false), (WINDOW, true)] {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = ended(&world, "s").await;
        runner.hold_engine(&session.id, 1, silent(idle));
        world.sweep().await;
        assert_eq!(!runner.script().stops.is_empty(), stopped, "{idle}");
        assert_eq!(world.read(&session).await.is_open(), !stopped, "in use: reopened; idle: stays ended");
        assert_eq!(world.entries(&session, EntryKind::Stopped).await.len(), usize::from(stopped));
    }
}

#[tokio::test]
async fn a_working_stray_is_reopened_whatever_works() {
    let states = [
        EngineState { generating: Told::Is(true), turn_silent_ms: Some(0), ..silent(0) },
        EngineState { background_tasks: Told::Is(1), background_silent_ms: Some(HOUR), ..silent(WINDOW) },
        EngineState { next_wake_in_ms: Some(HOUR), ..silent(WINDOW) },
        EngineState { awaiting_input: Told::Is(true), awaiting_ms: Some(HOUR), ..silent(WINDOW) },
    ];
    for state in states {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = ended(&world, "s").await;
        runner.hold_engine(&session.id, 1, state.clone());
        world.sweep().await;
        let row = world.read(&session).await;
        assert_eq!((row.status, row.reopened), (Status::Active, 1), "{state:?}");
        assert_eq!(world.entries(&session, EntryKind::Reopened).await.len(), 1);
        assert!(runner.script().stops.is_empty());
    }
}

#[tokio::test]
async fn a_stray_whose_place_is_taken_stays_ended_and_is_shown() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = ended(&world, "s").await;
    let newer = world.session("newer", 0, |row| row.repo = session.repo.clone()).await;
    runner.hold_engine(&newer.id, 1, silent(0));
    runner.hold_engine(&session.id, 1, silent(0));
    for _ in 0..2 {
        let report = world.sweep().await;
        let strays = report.part(PartName::Strays);
        assert_eq!((strays.items.len(), kept(strays, Verdict::Refused)), (1, 1), "asked again each pass: {strays:?}");
    }
    assert!(!world.read(&session).await.is_open() && world.read(&newer).await.is_open());
    assert!(world.entries(&session, EntryKind::Reopened).await.is_empty());
    assert_eq!(runner.calls_of(Verb::End).len(), 2);
}

#[tokio::test]
async fn an_engine_that_was_said_to_be_gone_is_not_reopened() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW).await;
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
    // The runner brings it back to life and forgets that it stopped it.
    runner.script().highest_ended.clear();
    world.clock.advance(1);
    runner.hold_engine(&session.id, 1, silent(0));
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Strays), Verdict::Refused), 1, "{report:?}");
    assert!(!world.read(&session).await.is_open());
    assert!(world.entries(&session, EntryKind::Reopened).await.is_empty());
}

#[tokio::test]
async fn an_engine_of_an_earlier_generation_is_stopped_and_the_row_stays() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.session("s", HOUR, |row| row.generation = 2).await;
    runner.hold_engine(&session.id, 1, silent(WINDOW));
    let report = world.sweep().await;
    assert_eq!(report.part(PartName::Strays).reaped, 1, "{report:?}");
    assert_eq!(world.read(&session).await.generation, 2);
    assert!(world.read(&session).await.is_open());
    let entries = world.entries(&session, EntryKind::Stopped).await;
    assert_eq!((entries.len(), entries[0].generation), (1, 1));
}

#[tokio::test]
async fn an_engine_of_an_earlier_generation_that_works_is_kept_and_says_nothing_about_the_row() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.session("s", HOUR, |row| row.generation = 2).await;
    let working = EngineState { background_tasks: Told::Is(1), background_silent_ms: Some(0), ..silent(WINDOW) };
    runner.hold_engine(&session.id, 1, working);
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Strays), Verdict::Refused), 1, "{report:?}");
    assert_eq!(world.read(&session).await.last_activity_at, session.last_activity_at);
    assert!(runner.script().stops.is_empty());
}

#[tokio::test]
async fn an_engine_of_a_later_generation_is_kept_and_so_is_its_row() {
    let world = World::new().await;
    let runner = world.runner().await;
    let open = world.session("open", 7 * HOUR, |_| ()).await;
    let closed = ended(&world, "closed").await;
    for session in [&open, &closed] {
        runner.hold_engine(&session.id, 2, silent(7 * HOUR));
    }
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Strays), Verdict::Undetermined), 2, "{report:?}");
    assert_eq!(kept(report.part(PartName::Idle), Verdict::Undetermined), 1);
    assert!(world.read(&open).await.is_open() && !world.read(&closed).await.is_open());
    assert!(runner.calls_of(Verb::End).is_empty());
}

#[tokio::test]
async fn a_session_that_this_store_never_knew_is_left_alone_and_shown() {
    let world = World::new().await;
    let runner = world.runner().await;
    runner.hold_engine(&id("somebody-elses"), 1, silent(48 * HOUR));
    let report = world.sweep().await;
    let strays = report.part(PartName::Strays);
    assert_eq!((strays.examined, strays.items.len()), (1, 1), "{strays:?}");
    assert!(runner.calls_of(Verb::End).is_empty());
    runner.script().end_by_itself(&id("somebody-elses"), "exited", &world.clock);
    world.sweep().await;
    assert!(runner.calls_of(Verb::Forget).is_empty(), "its record is for whoever knew it");
}

#[tokio::test]
async fn an_engine_on_another_runner_than_its_row_is_stopped_when_idle() {
    for (generation, engine_generation) in [(2, 1), (1, 1)] {
        let world = World::new().await;
        let runner = world.runner().await;
        let tower = second_runner(&world).await;
        let session = world.session("s", 0, |row| row.generation = generation).await;
        runner.hold_engine(&session.id, generation, silent(0));
        tower.hold_engine(&session.id, engine_generation, silent(WINDOW));
        let report = world.sweep().await;
        assert_eq!(report.part(PartName::Strays).reaped, 1, "{generation}: {report:?}");
        assert_eq!((tower.script().stops.len(), runner.script().stops.len()), (1, 0));
        assert!(world.read(&session).await.is_open());
        let entries = world.entries(&session, EntryKind::Stopped).await;
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].evidence["runner_id"], "tower");
        assert!(tower.script().ended.is_empty(), "told to forget");
        // The row's own engine ends in its own time, with its own entry.
        world.clock.advance(WINDOW);
        assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
        assert_eq!(world.entries(&session, EntryKind::Ended).await.len(), 1);
    }
}

#[tokio::test]
async fn a_record_of_another_runner_closes_nothing() {
    let world = World::new().await;
    let runner = world.runner().await;
    let tower = second_runner(&world).await;
    let session = world.held(&runner, "s", 0).await;
    tower.hold_engine(&session.id, 1, silent(0));
    tower.script().end_by_itself(&session.id, "exited", &world.clock);
    world.sweep().await;
    assert!(world.read(&session).await.is_open());
    assert!(world.entries(&session, EntryKind::Ended).await.is_empty());
}

#[tokio::test]
async fn a_late_record_of_a_closed_row_is_noted_once_and_forgotten() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = ended(&world, "s").await;
    runner.hold_engine(&session.id, 1, silent(0));
    runner.script().end_by_itself(&session.id, "exited", &world.clock);
    for _ in 0..3 {
        world.sweep().await;
    }
    assert_eq!(world.entries(&session, EntryKind::Stopped).await.len(), 1);
    assert_eq!(runner.calls_of(Verb::Forget).len(), 1);
    assert_eq!(world.read(&session).await.end_reason.as_deref(), Some("orphaned"));
}

#[tokio::test]
async fn what_keeps_a_session_keeps_its_stray_too() {
    let now = crate::support::world::NOON;
    for (word, change) in [
        (
            Verdict::KeptByRequest,
            Box::new(move |row: &mut Session| row.keep_until = Some(now.plus(HOUR))) as Box<dyn Fn(&mut Session)>,
        ),
        (Verdict::DriverClaimed, Box::new(move |row: &mut Session| row.driver_at = Some(now.minus(10 * MINUTE)))),
    ] {
        for foreign in [false, true] {
            let world = World::new().await;
            let runner = if foreign { world.foreign_runner().await } else { world.runner().await };
            let session = world
                .session("s", 7 * HOUR, |row| {
                    row.status = Status::Ended;
                    (row.ended_at, row.end_reason) = (Some(now.minus(HOUR)), Some("orphaned".to_owned()));
                    change(row);
                })
                .await;
            runner.hold_engine(&session.id, 1, silent(7 * HOUR));
            let report = world.sweep().await;
            assert_eq!(kept(report.part(PartName::Strays), word), 1, "{report:?}");
            assert!(runner.calls_of(Verb::End).is_empty());
        }
    }
}

#[tokio::test]
async fn a_stray_on_a_foreign_runner_needs_the_full_window_of_its_row() {
    for (idle, stopped) in [(WINDOW - 1, 0), (WINDOW, 1)] {
        let world = World::new().await;
        let runner = world.foreign_runner().await;
        let at = world.now().minus(MINUTE);
        let session = world
            .session("s", idle, |row| {
                row.status = Status::Ended;
                (row.ended_at, row.end_reason) = (Some(at), Some("orphaned".to_owned()));
            })
            .await;
        runner.hold_engine(&session.id, 1, silent(0));
        world.sweep().await;
        assert_eq!(runner.script().stops.len(), stopped, "{idle}");
        assert_eq!(world.read(&session).await.is_open(), stopped == 0);
    }
}
