//! A dry run makes the same decisions as a pass, asks read-only questions, and leaves no trace.

use std::collections::BTreeMap;

use sexton::protocol::{EngineState, Told};
use sexton::report::{Action, PartName, SweepReport};
use sexton::session::{Id, Run, RunStatus, Status};
use sexton::store::PAUSED;
use sexton::time::{HOUR, MINUTE};
use sexton::verdict::Verdict;

use crate::support::fake_runner::{FakeRunner, Verb};
use crate::support::rows::begin_run;
use crate::support::world::{World, id, silent};

const WINDOW: i64 = 6 * HOUR;

/// A world in which every part has something to end and something to keep.
async fn busy_world() -> (World, FakeRunner) {
    let world = World::with(|config| config.safety.max_stops_per_runner = 2).await;
    let runner = world.runner().await;
    let now = world.now();
    for (name, idle) in [("idle-1", WINDOW), ("idle-2", 2 * WINDOW), ("idle-3", WINDOW), ("young", HOUR)] {
        world.held(&runner, name, idle).await;
    }
    let working = world.session("working", WINDOW, |_| ()).await;
    let state = EngineState { generating: Told::Is(true), turn_silent_ms: Some(0), ..silent(0) };
    runner.hold_engine(&working.id, 1, state);
    world.session("future", HOUR, |row| row.last_activity_at = Some(now.plus(HOUR))).await;
    world.session("orphan", HOUR, |_| ()).await;
    world.session("kept", WINDOW, |row| row.keep_until = Some(now.plus(HOUR))).await;
    world.session("elsewhere", WINDOW, |row| row.runner_id = id("removed")).await;
    let ended = world.held(&runner, "ended", HOUR).await;
    runner.script().end_by_itself(&ended.id, "exited", &world.clock);
    for (name, idle) in [("stray", WINDOW), ("stray-in-use", 0)] {
        let stray = world.session(name, HOUR, |row| row.generation = 2).await;
        runner.hold_engine(&stray.id, 1, silent(idle));
    }
    world
        .session("starting", HOUR, |row| {
            row.status = Status::Starting;
            row.attached_at = Some(now.minus(HOUR));
        })
        .await;
    runner.hold_engine(&id("unknown"), 1, silent(WINDOW));
    let run = Run {
        id: id("run"),
        session_id: id("young"),
        status: RunStatus::Running,
        opened_session: false,
        started_at: now.minus(HOUR),
        heartbeat_at: None,
        finished_at: None,
        stale_at: None,
        result: None,
    };
    begin_run(world.store(), &run).await;
    world.store().beat(&id("crashed"), now.minus(10 * MINUTE)).await.unwrap();
    (world, runner)
}

#[tokio::test]
async fn it_writes_nothing_at_all_and_asks_nothing_but_the_set() {
    let (world, runner) = busy_world().await;
    let before = world.dump().await;
    for _ in 0..3 {
        let report = world.dry_run().await;
        assert!(report.dry_run && report.part(PartName::Idle).reaped > 0, "{report:?}");
    }
    assert_eq!(world.dump().await, before);
    let other: Vec<_> = runner.calls().into_iter().filter(|call| call.verb != Verb::Sessions).collect();
    assert!(other.is_empty(), "{other:?}");
}

/// What was reaped in a part, by session.
fn reaped(report: &SweepReport, part: PartName) -> BTreeMap<Id, Verdict> {
    let ends =
        [Action::Stopped, Action::Closed, Action::Marked, Action::WouldStop, Action::WouldClose, Action::WouldMark];
    let items = report.part(part).items.iter().filter(|item| ends.contains(&item.action));
    items.map(|item| (item.session_id.clone(), item.verdict)).collect()
}

#[tokio::test]
async fn it_decides_as_the_pass_does() {
    let (world, _runner) = busy_world().await;
    let dry = world.dry_run().await;
    let real = world.sweep().await;
    for part in PartName::ALL {
        // A dry run closes nothing, so what one part would close is still there for the next.
        let gone =
            |id: &Id| PartName::ALL.iter().any(|earlier| earlier < part && reaped(&real, *earlier).contains_key(id));
        let dry: BTreeMap<_, _> = reaped(&dry, *part).into_iter().filter(|(id, _)| !gone(id)).collect();
        assert_eq!(dry, reaped(&real, *part), "{part}");
    }
}

#[tokio::test]
async fn it_names_everything_that_it_examined() {
    let (world, _runner) = busy_world().await;
    let report = world.dry_run().await;
    for part in [PartName::Runs, PartName::Idle, PartName::Orphans, PartName::Strays] {
        let part_report = report.part(part);
        assert_eq!(part_report.items.len() as u64, part_report.examined, "{part}: {part_report:?}");
    }
}

#[tokio::test]
async fn it_says_so_when_the_reaper_is_paused() {
    let (world, _runner) = busy_world().await;
    world.store().set_setting(PAUSED, "anna").await.unwrap();
    let report = world.dry_run().await;
    assert!(report.paused);
    assert_eq!(report.parts.values().map(|part| part.reaped).sum::<u64>(), 0, "{report:?}");
}
