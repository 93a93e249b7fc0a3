//! Clocks: sleep is no idleness, and a wall clock that jumps reaps nobody.

use sexton::protocol::{EngineState, Told};
use sexton::report::PartName;
use sexton::time::{HOUR, MINUTE};
use sexton::verdict::Verdict;

use crate::support::fake_runner::Verb;
use crate::support::world::{World, kept, silent};

const WINDOW: i64 = 6 * HOUR;

#[tokio::test]
async fn the_worker_nominates_and_the_runner_refuses_until_six_waking_hours_are_over() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", HOUR).await;
    world.sweep().await;
    world.clock.sleep(8 * HOUR);

    // The row looks nine hours old; the runner knows of one waking hour.
    for waking in [HOUR, 2 * HOUR, 4 * HOUR, WINDOW - 1] {
        world.clock.advance(waking - awake_since(&world, &runner, &session));
        let report = world.sweep().await;
        assert_eq!(report.part(PartName::Idle).reaped, 0, "{waking}: {report:?}");
        assert!(world.read(&session).await.is_open());
    }
    world.clock.advance(1);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
}

fn awake_since(
    world: &World,
    runner: &crate::support::fake_runner::FakeRunner,
    session: &sexton::session::Session,
) -> i64 {
    use sexton::clock::Clock;
    runner.script().engines[&session.id].state_at(world.clock.awake()).idle_ms.value().unwrap()
}

#[tokio::test]
async fn a_laptop_that_sleeps_every_four_hours_still_reaps_after_six_waking_ones() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", 0).await;
    let mut waking = 0;
    while world.read(&session).await.is_open() {
        world.clock.advance(HOUR);
        waking += 1;
        if waking % 4 == 0 {
            world.clock.sleep(8 * HOUR);
        }
        let report = world.sweep().await;
        assert!(waking >= 6 || report.part(PartName::Idle).reaped == 0, "{waking}");
        assert!(waking < 8, "a wake restarts nothing: {report:?}");
    }
    assert!(waking >= 6);
}

#[tokio::test]
async fn a_wall_clock_that_jumps_by_a_day_reaps_nothing_that_the_runner_knows_to_be_younger() {
    for jump in [24 * HOUR, 30 * 24 * HOUR] {
        let world = World::new().await;
        let runner = world.runner().await;
        let sessions = [world.held(&runner, "a", 0).await, world.held(&runner, "b", WINDOW - 1).await];
        world.sweep().await;
        world.clock.step_wall(jump);
        for _ in 0..3 {
            let report = world.sweep().await;
            assert_eq!(report.parts.values().map(|part| part.reaped).sum::<u64>(), 0, "{report:?}");
        }
        for session in &sessions {
            assert!(world.read(session).await.is_open());
        }
    }
}

#[tokio::test]
async fn a_wall_clock_that_goes_back_reaps_later_and_never_earlier() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW).await;
    world.clock.step_wall(-HOUR);
    let report = world.sweep().await;
    assert_eq!(report.part(PartName::Idle).reaped, 0);
    world.clock.advance(HOUR);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
    assert!(!world.read(&session).await.is_open());
}

#[tokio::test]
async fn on_a_foreign_runner_a_jump_or_a_sleep_costs_one_pass() {
    for sleep in [true, false] {
        let world = World::new().await;
        let runner = world.foreign_runner().await;
        let session = world.held(&runner, "s", WINDOW).await;
        let first = world.dry_run().await;
        assert_eq!(first.part(PartName::Idle).reaped, 1, "without a jump it would be reaped");
        world.sweep_only(&[PartName::Runs]).await;
        if sleep {
            world.clock.sleep(MINUTE + 1)
        } else {
            world.clock.step_wall(MINUTE + 1)
        }
        let report = world.sweep().await;
        assert_eq!(kept(report.part(PartName::Idle), Verdict::ClockUnsettled), 1, "{report:?}");
        assert!(runner.calls_of(Verb::End).is_empty());
        world.clock.advance(MINUTE);
        assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
        assert!(!world.read(&session).await.is_open());
    }
}

#[tokio::test]
async fn a_one_shot_pass_on_a_machine_that_booted_a_minute_ago_reaps_an_old_row() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", 7 * HOUR).await;
    let unknown = world.session("no-engine", 7 * HOUR, |_| ()).await;
    world.clock.set_uptime(MINUTE);
    // The runner's records say how silent the engine was before the boot.
    runner.hold_engine(&session.id, 1, silent(7 * HOUR));
    let report = world.sweep().await;
    assert_eq!(report.part(PartName::Idle).reaped, 2, "{report:?}");
    assert_eq!(world.read(&session).await.end_reason.as_deref(), Some("idle"));
    assert_eq!(world.read(&unknown).await.end_reason.as_deref(), Some("orphaned"));
}

#[tokio::test]
async fn the_window_begins_when_the_last_background_task_ends() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.session("s", 7 * HOUR, |_| ()).await;
    let working = EngineState { background_tasks: Told::Is(1), background_silent_ms: Some(0), ..silent(0) };
    runner.hold_engine(&session.id, 1, working);
    world.sweep().await;
    assert!(world.read(&session).await.is_open());
    // It ends: that is its last output.
    runner.hold_engine(&session.id, 1, silent(0));
    world.clock.advance(WINDOW - 1);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 0);
    world.clock.advance(1);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
}
