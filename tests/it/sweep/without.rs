//! What each guard of the protocol is there for: the harm without it, beside the true runner that prevents it.

use sexton::entry::EntryKind;
use sexton::report::PartName;
use sexton::session::Session;
use sexton::time::{HOUR, MINUTE};
use sexton::verbs::Message;

use crate::support::fake_runner::{Answering, FakeRunner, Guard, Verb, When};
use crate::support::rows::{begin, keep};
use crate::support::world::{World, silent};

const WINDOW: i64 = 6 * HOUR;

/// A world with one idle session on a runner that lacks a guard, or none.
async fn with(lacks: Option<Guard>) -> (World, FakeRunner, Session) {
    let world = World::new().await;
    let runner = world.runner().await;
    runner.script().lacks = lacks;
    let session = world.held(&runner, "s", WINDOW).await;
    (world, runner, session)
}

#[tokio::test]
async fn without_a_condition_a_stop_overtakes_somebody_who_just_came_back() {
    for lacks in [None, Some(Guard::Condition)] {
        let (world, runner, session) = with(lacks).await;
        let gate = runner.hold(Verb::End, When::Arrived);
        let pass = world.spawn_sweep();
        gate.reached().await;
        sexton::verbs::send(&world.tools, &session.id, &Message::new("go on")).await.unwrap();
        gate.open();
        pass.await.unwrap();
        let killed_in_use = runner.script().stops.len();
        assert_eq!(killed_in_use, usize::from(lacks.is_some()), "{lacks:?}");
    }
}

#[tokio::test]
async fn without_a_generation_a_late_stop_kills_the_successor() {
    for lacks in [None, Some(Guard::Generation)] {
        let (world, runner, session) = with(lacks).await;
        let gate = runner.hold(Verb::End, When::Arrived);
        let pass = world.spawn_sweep();
        gate.reached().await;
        // Started anew while the stop is under way, on a runner that cannot tell yet how silent the new engine is.
        begin(world.store(), &session, &session.runner_id, world.now()).await;
        runner.hold_engine(&session.id, 2, sexton::protocol::EngineState::default());
        gate.open();
        pass.await.unwrap();
        let killed: Vec<i64> = runner.script().stops.iter().map(|stop| stop.generation).collect();
        assert_eq!(killed, if lacks.is_some() { vec![2] } else { vec![] }, "{lacks:?}");
        assert!(world.read(&session).await.is_open(), "the row of the successor is closed in neither case");
    }
}

#[tokio::test]
async fn without_a_stamp_a_frozen_worker_acts_on_old_news() {
    for lacks in [None, Some(Guard::Stamp)] {
        let (world, runner, session) = with(lacks).await;
        let (clock, store, session) = (world.clock.clone(), world.tools.store.clone(), session.clone());
        runner.hook(Verb::End, When::Arrived, move |_| {
            let (clock, store, session) = (clock.clone(), store.clone(), session.clone());
            async move {
                use sexton::clock::Clock;
                // While the worker stood still somebody asked to keep the session, of which its request knows nothing.
                clock.sleep(2 * MINUTE);
                keep(&store, &session, clock.now().plus(HOUR), clock.now()).await;
            }
        });
        world.sweep().await;
        assert_eq!(runner.script().stops.len(), usize::from(lacks.is_some()), "{lacks:?}");
    }
}

#[tokio::test]
async fn without_end_records_a_lost_answer_loses_the_reason() {
    for (lacks, reason) in [(None, "idle"), (Some(Guard::Records), "orphaned")] {
        let (world, runner, session) = with(lacks).await;
        runner.answer_once(Verb::End, None, Answering::DoThen(Box::new(Answering::Reset)));
        let first = world.sweep().await;
        assert_eq!(runner.script().stops.len(), 1);
        let second = world.sweep().await;
        assert_eq!(world.read(&session).await.end_reason.as_deref(), Some(reason), "{second:?}");
        let entries = world.entries(&session, EntryKind::Ended).await;
        assert_eq!(entries.len(), 1);
        let names_the_pass_that_stopped_it = entries[0].evidence["sweep_id"] == serde_json::json!(first.sweep_id);
        assert_eq!(names_the_pass_that_stopped_it, lacks.is_none(), "{lacks:?}");
    }
}

#[tokio::test]
async fn without_durations_a_wrong_wall_clock_would_reap_young_sessions() {
    for lacks in [None, Some(Guard::Condition)] {
        let world = World::new().await;
        let runner = world.runner().await;
        runner.script().lacks = lacks;
        // The runner says nothing of its silence in the list, so that the worker has its own clock alone to go by.
        let session = world.session("s", HOUR, |_| ()).await;
        runner.hold_engine(&session.id, 1, silent(HOUR));
        runner.answer(
            Verb::Sessions,
            None,
            Answering::Altered(serde_json::json!({
            "tracked": [{"session_id": "s", "generation": 1}]})),
        );
        // No earlier pass has read the clocks, so this one cannot tell that the wall clock was wrong until now.
        world.clock.step_wall(24 * HOUR);
        let report = world.sweep().await;
        assert_eq!(report.part(PartName::Idle).reaped, u64::from(lacks.is_some()), "{lacks:?}: {report:?}");
    }
}
