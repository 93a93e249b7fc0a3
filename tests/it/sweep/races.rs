//! Whoever comes back between the decision and the stop is never overtaken, and a late answer closes no successor.

use std::sync::Arc;

use sexton::activity::{Heard, Recorder, touch_once};
use sexton::clock::Clock;
use sexton::entry::EntryKind;
use sexton::report::PartName;
use sexton::session::{ActivityKind, Session, Status};
use sexton::store::Begun;
use sexton::time::{HOUR, MINUTE, SECOND};
use sexton::verbs::{self, Message};
use sexton::verdict::Verdict;

use crate::support::fake_runner::{FakeRunner, Verb, When};
use crate::support::rows::begin;
use crate::support::world::{World, kept, silent};

const WINDOW: i64 = 6 * HOUR;

/// Lets somebody act while the stop is under way and not decided, and checks that it is refused and the row stays.
async fn comes_back(name: &str, act: impl AsyncFnOnce(&World, &Session)) {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW).await;
    let gate = runner.hold(Verb::End, When::Arrived);
    let pass = world.spawn_sweep();
    gate.reached().await;

    act(&world, &session).await;
    gate.open();

    let report = pass.await.unwrap();
    let idle = report.part(PartName::Idle);
    assert_eq!(kept(idle, Verdict::Refused), 1, "{name}: {idle:?}");
    assert!(runner.script().stops.is_empty(), "{name}");
    assert!(world.read(&session).await.is_open(), "{name}");
    let refused = world.entries(&session, EntryKind::Refused).await;
    assert_eq!(refused.len(), 1, "{name}");
    assert_eq!(refused[0].evidence["because"], "active", "{name}");
}

#[tokio::test]
async fn a_use_between_the_decision_and_the_stop_is_never_overtaken() {
    for kind in [ActivityKind::Capture, ActivityKind::Timeline, ActivityKind::Copilot, ActivityKind::Run] {
        comes_back(kind.as_str(), async move |world, session| {
            let recorder = Recorder::new(world.tools.clone());
            assert_eq!(recorder.touch(session, kind).await.unwrap(), Heard::Yes);
        })
        .await;
    }
    comes_back("once", async |world, session| {
        touch_once(&world.tools, session, ActivityKind::Capture).await.unwrap();
    })
    .await;
    comes_back("message", async |world, session| {
        verbs::send(&world.tools, &session.id, &Message::new("go on")).await.unwrap();
    })
    .await;
    comes_back("claim", async |world, session| {
        verbs::claim(&world.tools, &session.id, "anna").await.unwrap();
    })
    .await;
    comes_back("keep", async |world, session| {
        let actor = verbs::person(&world.tools, "anna");
        verbs::keep(&world.tools, &session.id, HOUR, "demo", &actor).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_use_that_comes_after_the_stop_is_told_so_and_counts_for_nothing() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW).await;
    let gate = runner.hold(Verb::End, When::Decided);
    let pass = world.spawn_sweep();
    gate.reached().await;

    let heard = touch_once(&world.tools, &session, ActivityKind::Capture).await.unwrap();
    assert_eq!(heard, Heard::Ended("idle".to_owned()));
    assert!(matches!(
        verbs::send(&world.tools, &session.id, &Message::new("hello?")).await,
        Err(verbs::VerbError::Ended { reason, .. }) if reason == "idle"
    ));
    let row = world.read(&session).await;
    assert_eq!(row.end_reason.as_deref(), Some("idle"), "the message closed the row with the runner's reason");
    gate.open();

    let report = pass.await.unwrap();
    assert_eq!(kept(report.part(PartName::Idle), Verdict::LostRace), 1, "{report:?}");
    assert_eq!(world.entries(&session, EntryKind::Ended).await.len(), 1);
    assert_eq!(world.entries(&session, EntryKind::Stopped).await.len(), 0);
}

#[tokio::test]
async fn a_late_answer_about_one_generation_never_closes_the_next() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW).await;
    let gate = runner.hold(Verb::End, When::Decided);
    let pass = world.spawn_sweep();
    gate.reached().await;

    let begun = begin(world.store(), &session, &session.runner_id, world.now()).await;
    assert!(matches!(begun, Begun::Done(_)));
    runner.hold_engine(&session.id, 2, silent(0));
    gate.open();

    let report = pass.await.unwrap();
    assert_eq!(kept(report.part(PartName::Idle), Verdict::LostRace), 1, "{report:?}");
    let row = world.read(&session).await;
    assert_eq!((row.generation, row.status), (2, Status::Starting));
    assert!(world.entries(&session, EntryKind::Ended).await.is_empty());
    let noted = world.entries(&session, EntryKind::Stopped).await;
    assert_eq!((noted.len(), noted[0].generation), (1, 1), "the stop of the first is on record all the same");
    world.sweep().await;
    assert!(world.read(&session).await.is_open());
    assert_eq!(world.entries(&session, EntryKind::Stopped).await.len(), 1);
}

#[tokio::test]
async fn a_stop_whose_row_was_closed_meanwhile_is_on_record() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW).await;
    let gate = runner.hold(Verb::End, When::Decided);
    let pass = world.spawn_sweep();
    gate.reached().await;
    // Another process, which cannot reach the machine, calls it gone.
    let decision = sexton::policy::Decision { verdict: Verdict::MachineGone, findings: Vec::new(), limit_ms: None };
    let grounds = sexton::timeline::Grounds::of(&session).with(&decision);
    let actor = verbs::person(&world.tools, "other");
    let entry = sexton::timeline::closed_without_stop(grounds, decision.verdict, "x", &actor, world.now());
    let close = sexton::store::Close {
        session: &session,
        at: world.now(),
        reason: "machine_gone",
        guard: sexton::store::Guard::Unchanged,
        entry: &entry,
        item: None,
    };
    assert_eq!(world.store().close_session(&close).await.unwrap(), sexton::store::Closed::Done);
    gate.open();
    let report = pass.await.unwrap();
    assert_eq!(kept(report.part(PartName::Idle), Verdict::LostRace), 1, "{report:?}");
    assert_eq!(world.entries(&session, EntryKind::Stopped).await.len(), 1);
    assert_eq!(world.read(&session).await.end_reason.as_deref(), Some("machine_gone"));
    assert!(runner.script().ended.is_empty(), "told to forget, since it is on record");
}

#[tokio::test]
async fn a_worker_that_was_frozen_is_refused_as_stale() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", 2 * WINDOW).await;
    let clock = world.clock.clone();
    runner.hook(Verb::End, When::Arrived, move |_| {
        clock.sleep(MINUTE + 1);
        std::future::ready(())
    });
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Idle), Verdict::Refused), 1, "{report:?}");
    assert_eq!(world.entries(&session, EntryKind::Refused).await[0].evidence["because"], "stale");
    assert!(runner.script().stops.is_empty() && world.read(&session).await.is_open());
}

/// Makes a pass whose second stop comes `later` than its first, and returns how often the set was asked for.
async fn sets_asked_for(
    later: i64,
    meanwhile: impl AsyncFn(&World, &FakeRunner) + Send + Sync + 'static,
) -> (usize, World) {
    let world = Arc::new(World::with(|config| config.limits.stops_per_runner = 1).await);
    let runner = Arc::new(world.runner().await);
    for (name, idle) in [("first", 3 * WINDOW), ("second", 2 * WINDOW)] {
        world.held(&runner, name, idle).await;
    }
    let gate = runner.hold(Verb::End, When::Arrived);
    let pass = world.spawn_sweep();
    gate.reached().await;
    world.clock.advance(later);
    meanwhile(&world, &runner).await;
    gate.open();
    pass.await.unwrap();
    let asked = runner.calls_of(Verb::Sessions).len();
    drop(runner);
    (asked, Arc::into_inner(world).unwrap())
}

#[tokio::test]
async fn an_answer_over_thirty_seconds_old_is_asked_for_again() {
    assert_eq!(sets_asked_for(30 * SECOND, async |_, _| ()).await.0, 1);
    assert_eq!(sets_asked_for(30 * SECOND + 1, async |_, _| ()).await.0, 2);
}

#[tokio::test]
async fn and_the_row_is_read_again_after_it() {
    for refreshed in [false, true] {
        let later = if refreshed { 31 * SECOND } else { 0 };
        let (_, world) = sets_asked_for(later, async |world, _| {
            // Straight into the row, as a process does whose runner cannot be reached.
            let touch = sexton::store::Touch {
                id: "second".parse().unwrap(),
                at: world.clock.now(),
                kind: ActivityKind::Message,
            };
            world.store().write_touches(&[touch]).await.unwrap();
        })
        .await;
        let row = world.store().find_session(&"second".parse().unwrap()).await.unwrap().unwrap();
        assert!(row.is_open(), "{refreshed}");
        let row = world.store().find_session(&"first".parse().unwrap()).await.unwrap().unwrap();
        assert!(!row.is_open(), "{refreshed}");
    }
}

#[tokio::test]
async fn what_a_pass_closed_is_no_stray_to_it() {
    let world = World::new().await;
    let runner = world.runner().await;
    for number in 0..5 {
        world.held(&runner, &format!("s-{number}"), WINDOW).await;
    }
    let report = world.sweep().await;
    assert_eq!((report.part(PartName::Idle).reaped, report.part(PartName::Strays).examined), (5, 0), "{report:?}");
    assert_eq!(runner.calls_of(Verb::End).len(), 5);
}
