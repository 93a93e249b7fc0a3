//! Warnings before an idle reap: one per deadline, none that delays, none where nobody could act on it.

use sexton::entry::{Entry, EntryKind};
use sexton::protocol::{EngineState, Told};
use sexton::report::PartName;
use sexton::session::{ActivityKind, Session};
use sexton::store::Touch;
use sexton::time::{HOUR, MINUTE, Span};

use crate::support::world::{World, silent};

const WINDOW: i64 = 6 * HOUR;

async fn warnings(world: &World, session: &Session) -> Vec<Entry> {
    world.entries(session, EntryKind::Warned).await
}

#[tokio::test]
async fn a_session_is_warned_of_once_and_reaped_in_its_time() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW - 20 * MINUTE).await;
    for minute in 0..20 {
        let report = world.sweep().await;
        assert_eq!(report.part(PartName::Idle).reaped, 0, "{minute}");
        assert_eq!(warnings(&world, &session).await.len(), usize::from(minute >= 5), "{minute}");
        world.clock.advance(MINUTE);
    }
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1, "at its limit, warned or not");
    let told = warnings(&world, &session).await;
    assert_eq!(told.len(), 1);
    let (entry, due_at) = (&told[0], session.last_used().unwrap().plus(WINDOW));
    assert_eq!((entry.reason.as_deref(), &entry.evidence["rule"]), (Some("idle"), &"idle".into()));
    assert_eq!(entry.evidence["due_at"], due_at.to_string());
    let message = &entry.message;
    assert!(message.starts_with(&format!("Will be stopped in 15 min, at {due_at}, unless")), "{message}");
    assert!(message.contains("with no activity (last: ") && message.contains("sexton keep s --for 2h"), "{message}");
}

#[tokio::test]
async fn what_is_past_its_limit_or_far_from_it_gets_none() {
    let world = World::new().await;
    let runner = world.runner().await;
    let far = world.held(&runner, "far", WINDOW - 15 * MINUTE - 1).await;
    let past = world.held(&runner, "past", WINDOW).await;
    let own = world.session("own", HOUR, |row| row.idle_after_ms = Some(2 * HOUR)).await;
    runner.hold_engine(&own.id, 1, silent(HOUR));
    world.sweep().await;
    for session in [&far, &past, &own] {
        assert!(warnings(&world, session).await.is_empty(), "{}", session.id);
    }
    assert!(!world.read(&past).await.is_open());
}

#[tokio::test]
async fn a_window_of_its_own_counts_and_a_short_one_is_warned_of_in_its_last_quarter() {
    let world = World::new().await;
    let runner = world.runner().await;
    for (name, own, idle, warned) in [
        ("long", 12 * HOUR, 12 * HOUR - 15 * MINUTE, 1),
        ("long-yet", 12 * HOUR, WINDOW - MINUTE, 0),
        ("short", 20 * MINUTE, 14 * MINUTE, 0),
        ("short-now", 20 * MINUTE, 15 * MINUTE, 1),
    ] {
        let session = world.session(name, idle, |row| row.idle_after_ms = Some(own)).await;
        runner.hold_engine(&session.id, 1, silent(idle));
        world.sweep().await;
        assert_eq!(warnings(&world, &session).await.len(), warned, "{name}");
    }
}

#[tokio::test]
async fn a_use_moves_the_deadline_and_the_next_one_is_warned_of_again() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW - 10 * MINUTE).await;
    world.sweep().await;
    assert_eq!(warnings(&world, &session).await.len(), 1);
    let touch = Touch { id: session.id.clone(), at: world.now(), kind: ActivityKind::Capture };
    world.store().write_touches(&[touch]).await.unwrap();
    world.sweep().await;
    assert_eq!(warnings(&world, &session).await.len(), 1);
    world.clock.advance(WINDOW - MINUTE);
    world.sweep().await;
    assert_eq!(warnings(&world, &session).await.len(), 2);
}

#[tokio::test]
async fn whatever_keeps_it_beyond_the_deadline_keeps_it_from_a_warning() {
    let world = World::new().await;
    let runner = world.runner().await;
    let now = world.now();
    let kept = world.session("kept", WINDOW - MINUTE, |row| row.keep_until = Some(now.plus(HOUR))).await;
    let driven = world.session("driven", WINDOW - MINUTE, |row| row.driver_at = Some(now)).await;
    let working = world.session("working", WINDOW - MINUTE, |_| ()).await;
    let unheld = world.session("unheld", WINDOW - MINUTE, |_| ()).await;
    for session in [&kept, &driven] {
        runner.hold_engine(&session.id, 1, silent(WINDOW - MINUTE));
    }
    let state = EngineState { generating: Told::Is(true), turn_silent_ms: Some(0), ..silent(0) };
    runner.hold_engine(&working.id, 1, state);
    world.enrol_url("off", "http://127.0.0.1:9").await;
    let offline = world.session("offline", WINDOW - MINUTE, |row| row.runner_id = "off".parse().unwrap()).await;
    world.sweep().await;
    for session in [&kept, &driven, &working, &unheld] {
        assert!(warnings(&world, session).await.is_empty(), "{}", session.id);
    }
    let told = warnings(&world, &offline).await.len();
    assert_eq!(told, 1, "a runner that is away for now may be back by then");
}

#[tokio::test]
async fn the_end_of_a_request_to_keep_or_of_a_claim_is_a_deadline_too() {
    let world = World::new().await;
    let runner = world.runner().await;
    let now = world.now();
    let kept = world.session("kept", 2 * WINDOW, |row| row.keep_until = Some(now.plus(20 * MINUTE))).await;
    let driven =
        world.session("driven", 2 * WINDOW, |row| row.driver_at = Some(now.minus(WINDOW).plus(20 * MINUTE))).await;
    for session in [&kept, &driven] {
        runner.hold_engine(&session.id, 1, silent(2 * WINDOW));
    }
    world.sweep().await;
    for minute in 0..20 {
        for session in [&kept, &driven] {
            assert_eq!(warnings(&world, session).await.len(), usize::from(minute >= 5), "{} {minute}", session.id);
        }
        world.clock.advance(MINUTE);
        let report = world.sweep().await;
        assert_eq!(report.part(PartName::Idle).reaped, if minute == 19 { 2 } else { 0 }, "{minute}");
    }
}

#[tokio::test]
async fn it_can_be_switched_off_and_neither_a_pause_nor_a_dry_run_warns() {
    for off in [true, false] {
        let world = World::with(|config| {
            config.policy.warn_before = Span(if off { 0 } else { 15 * MINUTE });
            config.safety.paused = !off;
        })
        .await;
        let runner = world.runner().await;
        let session = world.held(&runner, "s", WINDOW - MINUTE).await;
        world.sweep().await;
        assert!(warnings(&world, &session).await.is_empty(), "{off}");
    }
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW - MINUTE).await;
    let before = world.dump().await;
    world.dry_run().await;
    assert_eq!(world.dump().await, before);
    assert!(warnings(&world, &session).await.is_empty());
}

#[tokio::test]
async fn a_runner_that_differs_by_milliseconds_makes_no_second_deadline() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.session("s", WINDOW - 10 * MINUTE, |_| ()).await;
    let state = |silence| EngineState { idle_ms: Told::Is(silence), ..silent(0) };
    runner.hold_engine(&session.id, 1, state(WINDOW - 10 * MINUTE - 7));
    world.sweep().await;
    world.clock.advance(MINUTE);
    runner.hold_engine(&session.id, 1, state(WINDOW - 9 * MINUTE - 3));
    world.sweep().await;
    assert_eq!(warnings(&world, &session).await.len(), 1);
}
