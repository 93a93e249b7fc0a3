//! The brakes: pause, the limit of stops, conditions only, and back-off.

use sexton::activity::touch_once;
use sexton::entry::EntryKind;
use sexton::report::PartName;
use sexton::session::{ActivityKind, Session};
use sexton::store::PAUSED;
use sexton::time::{HOUR, MINUTE};
use sexton::verbs;
use sexton::verdict::Verdict;

use crate::support::fake_runner::{Answering, FakeRunner, Raw, Verb, When};
use crate::support::rows::begin;
use crate::support::world::{World, id, kept, silent};

const WINDOW: i64 = 6 * HOUR;

async fn assert_nothing_done(world: &World, runner: &FakeRunner, session: &Session) {
    assert!(runner.calls_of(Verb::End).is_empty());
    assert!(world.read(session).await.is_open());
    assert!(world.entries(session, EntryKind::Ended).await.is_empty());
}

#[tokio::test]
async fn a_paused_reaper_decides_reports_and_acts_on_nothing() {
    for by_config in [true, false] {
        let world = World::with(|config| config.safety.paused = by_config).await;
        if !by_config {
            world.store().set_setting(PAUSED, "anna: release day").await.unwrap();
        }
        let runner = world.runner().await;
        let idle = world.held(&runner, "idle", WINDOW).await;
        let orphan = world.session("orphan", HOUR, |_| ()).await;
        let ended = world.held(&runner, "ended", HOUR).await;
        runner.script().end_by_itself(&ended.id, "exited", &world.clock);
        let stray = world.session("stray", HOUR, |row| row.generation = 2).await;
        runner.hold_engine(&stray.id, 1, silent(WINDOW));

        let report = world.sweep().await;

        assert!(report.paused);
        for part in [PartName::Idle, PartName::Orphans, PartName::Strays, PartName::Observe] {
            assert!(kept(report.part(part), Verdict::Paused) >= 1, "{part}: {report:?}");
            assert_eq!(report.part(part).reaped, 0, "{part}");
        }
        for session in [&idle, &orphan, &ended, &stray] {
            assert_nothing_done(&world, &runner, session).await;
        }
        if !by_config {
            world.store().delete_setting(PAUSED).await.unwrap();
            let report = world.sweep().await;
            assert_eq!(report.parts.values().map(|part| part.reaped).sum::<u64>(), 4, "{report:?}");
        }
    }
}

#[tokio::test]
async fn a_pause_between_observe_and_stop_holds_back_the_rest() {
    let world = World::with(|config| config.limits.stops_per_runner = 1).await;
    let runner = world.runner().await;
    for number in 0..3 {
        world.held(&runner, &format!("s-{number}"), WINDOW + number).await;
    }
    let store = world.tools.store.clone();
    runner.hook(Verb::End, When::Arrived, move |_| {
        let store = store.clone();
        async move { store.set_setting(PAUSED, "now").await.unwrap() }
    });
    let report = world.sweep().await;
    let idle = report.part(PartName::Idle);
    assert_eq!((idle.reaped, kept(idle, Verdict::Paused)), (1, 2), "the one in flight finishes: {idle:?}");
    assert!(!report.paused, "it was not when the pass began");
}

#[tokio::test]
async fn the_limit_takes_the_oldest_first_and_the_rest_go_next() {
    let world = World::with(|config| config.safety.max_stops_per_runner = 2).await;
    let runner = world.runner().await;
    for number in 0..5 {
        world.held(&runner, &format!("s-{number}"), WINDOW + number).await;
    }
    let mut stopped = Vec::new();
    for expected in [2, 2, 1, 0] {
        let report = world.sweep().await;
        let idle = report.part(PartName::Idle);
        assert_eq!(idle.reaped, expected, "{idle:?}");
        assert_eq!(kept(idle, Verdict::Limit), 5 - expected - stopped.len() as u64, "{idle:?}");
        let mut now: Vec<String> = runner.script().stops.iter().map(|stop| stop.session_id.to_string()).collect();
        now.drain(..stopped.len());
        now.sort();
        stopped.extend(now);
    }
    assert_eq!(stopped, ["s-3", "s-4", "s-1", "s-2", "s-0"]);
}

#[tokio::test]
async fn the_limit_is_one_per_runner_and_zero_means_none() {
    for (limit, reaped) in [(1, 2), (0, 6)] {
        let world = World::with(|config| config.safety.max_stops_per_runner = limit).await;
        let runner = world.runner().await;
        let tower = tower(&world).await;
        for number in 0..3 {
            world.held(&runner, &format!("m-{number}"), WINDOW).await;
            let session = world.session(&format!("t-{number}"), WINDOW, |row| row.runner_id = id("tower")).await;
            tower.hold_engine(&session.id, 1, silent(WINDOW));
        }
        assert_eq!(world.sweep().await.part(PartName::Idle).reaped, reaped, "{limit}");
    }
}

async fn tower(world: &World) -> FakeRunner {
    let runner = FakeRunner::with_clock(std::sync::Arc::new(world.clock.clone())).await;
    runner.script().runner_id = id("tower");
    world.enrol(&runner, "tower").await;
    runner
}

#[tokio::test]
async fn a_runner_may_be_stopped_on_conditions_only() {
    let world = World::new().await;
    let runner = world.foreign_runner().await;
    world.store().set_require_conditional_stop(&id("mac-mini"), true).await.unwrap();
    let idle = world.held(&runner, "idle", WINDOW).await;
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Idle), Verdict::Refused), 1, "{report:?}");
    assert_nothing_done(&world, &runner, &idle).await;
    runner.script().foreign = false;
    world.sweep().await;
    assert_eq!(runner.script().stops.len(), 1, "one that checks conditions is asked");
}

/// Returns the times, in minutes since the first pass, at which the runner was asked to stop.
fn asked_at(runner: &FakeRunner, from: sexton::time::UtcMs) -> Vec<i64> {
    runner.calls_of(Verb::End).iter().map(|call| call.at.since(from) / MINUTE).collect()
}

#[tokio::test]
async fn a_failing_stop_is_tried_again_after_a_wait_that_doubles() {
    let world = World::new().await;
    let runner = world.runner().await;
    world.held(&runner, "s", WINDOW).await;
    runner.answer(Verb::End, None, Answering::Raw(Raw::bare(500)));
    let from = world.now();
    for _ in 0..150 {
        world.sweep_only(&[PartName::Idle]).await;
        world.clock.advance(MINUTE);
    }
    assert_eq!(asked_at(&runner, from), [0, 1, 2, 4, 8, 16, 32, 62, 92, 122]);
}

#[tokio::test]
async fn whatever_uses_the_session_clears_the_wait() {
    for what in ["touch", "keep", "claim", "generation", "limit"] {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = world.held(&runner, "s", WINDOW).await;
        runner.answer(Verb::End, None, Answering::Raw(Raw::bare(500)));
        for _ in 0..2 {
            world.sweep().await;
        }
        assert!(world.read(&session).await.next_check_at > Some(world.now()), "{what}");
        let actor = verbs::person(&world.tools, "anna");
        match what {
            "touch" => drop(touch_once(&world.tools, &session, ActivityKind::Capture).await.unwrap()),
            "keep" => drop(verbs::keep(&world.tools, &session.id, HOUR, "x", &actor).await.unwrap()),
            "claim" => drop(verbs::claim(&world.tools, &session.id, "anna").await.unwrap()),
            "generation" => {
                begin(world.store(), &session, &session.runner_id, world.now()).await;
            }
            _ => world.look_again().await,
        }
        assert_eq!(world.read(&session).await.next_check_at, None, "{what}");
        assert_eq!(world.store().find_check_delay(&session.id).await.unwrap(), None, "{what}");
    }
}

#[tokio::test]
async fn a_refusal_as_active_tells_when_to_ask_again() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW).await;
    let idle = HOUR + 17;
    let gate = runner.hold(Verb::End, When::Arrived);
    let pass = world.spawn_sweep();
    gate.reached().await;
    runner.hold_engine(&session.id, 1, silent(idle));
    gate.open();
    pass.await.unwrap();
    let due = world.now().plus(WINDOW - idle);
    assert_eq!(world.read(&session).await.next_check_at, Some(due));
    world.clock.advance(WINDOW - idle - 1);
    assert_eq!(world.sweep().await.part(PartName::Idle).examined, 0);
    world.clock.advance(1);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
}

#[tokio::test]
async fn failing_ones_never_starve_the_others() {
    let world = World::with(|config| config.safety.max_stops_per_runner = 2).await;
    let runner = world.runner().await;
    for number in 0..4 {
        let failing = world.held(&runner, &format!("failing-{number}"), 3 * WINDOW).await;
        runner.answer(Verb::End, Some(&failing.id), Answering::Raw(Raw::bare(500)));
    }
    let mut healthy = Vec::new();
    for number in 0..4 {
        healthy.push(world.held(&runner, &format!("healthy-{number}"), WINDOW).await);
    }
    for _ in 0..20 {
        world.sweep().await;
        world.clock.advance(MINUTE);
    }
    for session in &healthy {
        assert!(!world.read(session).await.is_open(), "{}", session.id);
    }
}

#[tokio::test]
async fn a_runner_that_hangs_delays_no_other_runners_stops() {
    let world = World::new().await;
    let hung = world.runner().await;
    let tower = tower(&world).await;
    for number in 0..40 {
        world.held(&hung, &format!("h-{number}"), 2 * WINDOW).await;
        let session = world.session(&format!("t-{number}"), WINDOW, |row| row.runner_id = id("tower")).await;
        tower.hold_engine(&session.id, 1, silent(WINDOW));
    }
    // All stops of the one are under way and none is answered while those of the other are made.
    let gate = hung.hold(Verb::End, When::Arrived);
    let pass = world.spawn_sweep();
    gate.reached().await;
    tower.wait_for(Verb::End, 40).await;
    assert!(hung.script().stops.is_empty());
    assert!(hung.calls_of(Verb::End).len() <= world.tools.config().limits.stops_per_runner as usize);
    gate.open();
    assert_eq!(pass.await.unwrap().part(PartName::Idle).reaped, 80);
}

#[tokio::test]
async fn a_runner_that_answers_no_stop_is_left_alone_after_a_few() {
    let mut world = World::with(|config| config.limits.stops_per_runner = 1).await;
    world.hurry();
    let runner = world.runner().await;
    for number in 0..10 {
        world.held(&runner, &format!("s-{number}"), WINDOW).await;
    }
    runner.answer(Verb::End, None, Answering::Hang);
    let report = world.sweep().await;
    let idle = report.part(PartName::Idle);
    assert_eq!((kept(idle, Verdict::StopFailed), kept(idle, Verdict::RunnerOffline)), (3, 7), "{idle:?}");
    assert_eq!(runner.calls_of(Verb::End).len(), 3);
}
