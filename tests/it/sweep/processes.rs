//! Two processes on one store: each session is reaped once, with one entry, and neither fails because of the other.

use sexton::entry::EntryKind;
use sexton::report::PartName;
use sexton::time::HOUR;
use sexton::verdict::Verdict;

use crate::support::fake_runner::{Verb, When};
use crate::support::rows::items;
use crate::support::world::{World, kept, spawn_sweep};

const WINDOW: i64 = 6 * HOUR;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_passes_at_once_reap_each_session_once() {
    let world = World::new().await;
    let runner = world.runner().await;
    let second = world.second_process().await;
    let at_once = world.tools.config().limits.stops_per_runner as usize;
    for (round, overlap) in [None, Some(When::Arrived), Some(When::Decided), None].into_iter().enumerate() {
        let mut sessions = Vec::new();
        for number in 0..25 {
            sessions.push(world.held(&runner, &format!("r{round}-{number}"), WINDOW).await);
        }
        // Both have nominated, and both have stops under way, before any of them is decided or answered.
        let observed = runner.hold(Verb::Sessions, When::Decided);
        let gate = overlap.map(|when| runner.hold(Verb::End, when));
        let passes = [world.spawn_sweep(), spawn_sweep(&second)];
        observed.reached_by(2).await;
        observed.open();
        if let Some(gate) = gate {
            gate.reached_by(2 * at_once).await;
            gate.open();
        }
        let mut reaped = 0;
        for pass in passes {
            let report = pass.await.unwrap();
            let idle = report.part(PartName::Idle);
            assert!(idle.errors.is_empty(), "{idle:?}");
            assert_eq!(idle.examined, idle.reaped + kept(idle, Verdict::LostRace), "{idle:?}");
            reaped += report.part(PartName::Idle).reaped + report.part(PartName::Observe).reaped;
        }
        assert_eq!(reaped, 25);
        for session in &sessions {
            assert_eq!(world.read(session).await.end_reason.as_deref(), Some("idle"));
            assert_eq!(world.entries(session, EntryKind::Ended).await.len(), 1);
            assert!(world.entries(session, EntryKind::Stopped).await.is_empty());
            let stops = runner.script().stops.iter().filter(|stop| stop.session_id == session.id).count();
            assert_eq!(stops, 1);
        }
        runner.unhook();
    }
}

#[tokio::test]
async fn the_second_to_ask_is_told_and_loses_the_race() {
    let world = World::new().await;
    let runner = world.runner().await;
    let second = world.second_process().await;
    let session = world.held(&runner, "s", WINDOW).await;
    let gate = runner.hold(Verb::End, When::Decided);
    let passes = [world.spawn_sweep(), spawn_sweep(&second)];
    gate.reached_by(2).await;
    gate.open();
    let mut reports = Vec::new();
    for pass in passes {
        reports.push(pass.await.unwrap());
    }
    reports.sort_by_key(|report| report.part(PartName::Idle).reaped);
    assert_eq!(kept(reports[0].part(PartName::Idle), Verdict::LostRace), 1, "{:?}", reports[0]);
    assert_eq!(reports[1].part(PartName::Idle).reaped, 1, "{:?}", reports[1]);
    let items = items(world.store(), &reports[0].sweep_id).await;
    assert!(items.is_empty(), "{items:?}");
    assert_eq!(world.entries(&session, EntryKind::Ended).await.len(), 1);
}

#[tokio::test]
async fn two_passes_close_an_orphan_once() {
    let world = World::new().await;
    let runner = world.runner().await;
    let second = world.second_process().await;
    let mut sessions = Vec::new();
    for number in 0..20 {
        sessions.push(world.session(&format!("s-{number}"), HOUR, |_| ()).await);
    }
    let gate = runner.hold(Verb::Sessions, When::Decided);
    let passes = [world.spawn_sweep(), spawn_sweep(&second)];
    gate.reached_by(2).await;
    gate.open();
    let mut reaped = 0;
    for pass in passes {
        reaped += pass.await.unwrap().part(PartName::Orphans).reaped;
    }
    assert_eq!(reaped, 20);
    for session in &sessions {
        assert_eq!(world.entries(session, EntryKind::Ended).await.len(), 1);
    }
}

#[tokio::test]
async fn who_asks_after_the_runner_was_told_to_forget_loses_the_race_too() {
    let world = World::new().await;
    let runner = world.runner().await;
    let second = world.second_process().await;
    let session = world.held(&runner, "s", WINDOW).await;
    // The stop of the one is on its way while the other stops, closes and lets the runner forget.
    let gate = runner.hold(Verb::End, When::Arrived);
    let late = spawn_sweep(&second);
    gate.reached().await;
    runner.unhook();
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
    assert!(runner.script().ended.is_empty());
    gate.open();
    let report = late.await.unwrap();
    assert_eq!(kept(report.part(PartName::Idle), Verdict::LostRace), 1, "{report:?}");
    assert!(world.entries(&session, EntryKind::Refused).await.is_empty(), "no word of a refusal after the end");
}
