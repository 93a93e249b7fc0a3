//! What counts as a use of a session, and for how long each thing keeps it.

use sexton::activity::{Heard, Recorder, touch_once};
use sexton::report::PartName;
use sexton::session::{ActivityKind, Session};
use sexton::time::{HOUR, MINUTE, SECOND};
use sexton::verbs;
use sexton::verdict::Verdict;

use crate::support::world::{World, kept};

const WINDOW: i64 = 6 * HOUR;

#[tokio::test]
async fn every_kind_of_activity_starts_the_window_anew() {
    let world = World::new().await;
    let runner = world.runner().await;
    let recorder = Recorder::new(world.tools.clone());
    let mut sessions = Vec::new();
    for kind in ActivityKind::ALL {
        let throttled = world.held(&runner, &format!("recorder-{kind}"), WINDOW).await;
        assert_eq!(recorder.touch(&throttled, *kind).await.unwrap(), Heard::Yes);
        let once = world.held(&runner, &format!("once-{kind}"), WINDOW).await;
        assert_eq!(touch_once(&world.tools, &once, *kind).await.unwrap(), Heard::Yes);
        sessions.extend([(throttled, *kind), (once, *kind)]);
    }
    recorder.flush().await;
    let touched_at = world.now();

    assert_eq!(world.sweep().await.part(PartName::Idle).examined, 0);
    world.clock.advance(WINDOW - 1);
    assert_eq!(world.sweep().await.part(PartName::Idle).examined, 0);
    for (session, kind) in &sessions {
        let row = world.read(session).await;
        assert_eq!((row.last_activity_at, row.last_activity_kind), (Some(touched_at), Some(*kind)));
    }
    world.clock.advance(1);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, sessions.len() as u64);
}

#[tokio::test]
async fn an_old_driver_claim_keeps_though_it_gives_no_right_any_more() {
    let world = World::new().await;
    let runner = world.runner().await;
    let claimed_at = world.now().minus(5 * HOUR);
    let session = world
        .session("s", 10 * HOUR, |row| {
            row.driver = Some("anna".to_owned());
            row.driver_at = Some(claimed_at);
        })
        .await;
    runner.hold_engine(&session.id, 1, crate::support::world::silent(10 * HOUR));
    for _ in 0..11 {
        let report = world.sweep().await;
        assert_eq!(kept(report.part(PartName::Idle), Verdict::DriverClaimed), 1);
        world.clock.advance(5 * MINUTE);
    }
    world.clock.advance(5 * MINUTE - 1);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 0, "one millisecond before");
    world.clock.advance(1);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1, "a claim of exactly the window");
}

#[tokio::test]
async fn a_claim_that_lapsed_can_be_taken_over_and_keeps_all_the_same() {
    let world = World::new().await;
    let runner = world.runner().await;
    let claimed_at = world.now().minus(15 * MINUTE);
    let session = world
        .session("s", 10 * HOUR, |row| {
            row.driver = Some("anna".to_owned());
            row.driver_at = Some(claimed_at);
        })
        .await;
    runner.hold_engine(&session.id, 1, crate::support::world::silent(10 * HOUR));
    assert_eq!(kept(world.sweep().await.part(PartName::Idle), Verdict::DriverClaimed), 1);

    let row = verbs::claim(&world.tools, &session.id, "ben").await.unwrap();
    assert_eq!((row.driver.as_deref(), row.driver_at), (Some("ben"), Some(world.now())));
    assert_eq!(row.last_activity_at, session.last_activity_at, "a claim writes the claim alone");
    assert!(verbs::claim(&world.tools, &session.id, "carl").await.is_err());
}

#[tokio::test]
async fn a_request_to_keep_holds_until_it_lapses() {
    let world = World::new().await;
    let runner = world.runner().await;
    let until = world.now().plus(HOUR);
    let session = world.session("s", WINDOW, |row| row.keep_until = Some(until)).await;
    runner.hold_engine(&session.id, 1, crate::support::world::silent(WINDOW));
    for passed in [0, HOUR - 1] {
        world.clock.advance(passed);
        assert_eq!(kept(world.sweep().await.part(PartName::Idle), Verdict::KeptByRequest), 1);
    }
    world.clock.advance(1);
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
}

/// A change of a row that nothing has used for its window.
type Change = fn(&mut Session);

#[tokio::test]
async fn a_row_without_activity_falls_back_to_its_other_times() {
    let cases: [(&str, Change, u64, u64); 6] = [
        ("updated", |row| (row.last_activity_at, row.updated_at) = (None, row.last_activity_at), 1, 0),
        ("updated-early", |row| (row.last_activity_at, row.updated_at) = (None, after(row)), 0, 0),
        (
            "started",
            |row| (row.started_at, row.last_activity_at, row.updated_at) = (row.last_activity_at, None, None),
            1,
            0,
        ),
        (
            "started-early",
            |row| (row.started_at, row.last_activity_at, row.updated_at) = (after(row), None, None),
            0,
            0,
        ),
        ("none", |row| (row.started_at, row.last_activity_at, row.updated_at) = (None, None, None), 0, 1),
        ("activity-wins", |row| (row.updated_at, row.last_activity_at) = (row.updated_at, after(row)), 0, 0),
    ];
    for (name, change, reaped, undetermined) in cases {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = world.session(name, WINDOW, change).await;
        runner.hold_engine(&session.id, 1, crate::support::world::silent(WINDOW));
        for _ in 0..2 {
            let report = world.sweep().await;
            let idle = report.part(PartName::Idle);
            assert_eq!(kept(idle, Verdict::Undetermined), undetermined, "{name}: {idle:?}");
        }
        assert_eq!(u64::from(!world.read(&session).await.is_open()), reaped, "{name}");
    }
}

/// The last activity, one millisecond later.
fn after(row: &Session) -> Option<sexton::time::UtcMs> {
    row.last_activity_at.map(|at| at.plus(1))
}

#[tokio::test]
async fn a_time_in_the_future_is_set_to_now_once() {
    for (name, column) in [
        ("activity", (|row, at| row.last_activity_at = at) as fn(&mut Session, Option<sexton::time::UtcMs>)),
        ("updated", |row, at| row.updated_at = at),
        ("started", |row, at| row.started_at = at),
        ("attached", |row, at| row.attached_at = at),
        ("driver", |row, at| row.driver_at = at),
    ] {
        let world = World::new().await;
        let runner = world.runner().await;
        let ahead = Some(world.now().plus(MINUTE + 1));
        let session = world.session(name, 10 * HOUR, |row| column(row, ahead)).await;
        runner.hold_engine(&session.id, 1, crate::support::world::silent(10 * HOUR));

        let report = world.sweep().await;
        assert_eq!(kept(report.part(PartName::Idle), Verdict::ClockUnsettled), 1, "{name}");
        let row = world.read(&session).await;
        let times = [row.last_activity_at, row.updated_at, row.started_at, row.attached_at, row.driver_at];
        assert_eq!(times.into_iter().flatten().max(), Some(world.now()), "{name}");
        let report = world.sweep().await;
        assert_eq!(kept(report.part(PartName::Idle), Verdict::ClockUnsettled), 0, "{name}: once");
    }
}

#[tokio::test]
async fn a_clock_that_is_off_by_a_minute_is_believed() {
    let world = World::new().await;
    world.runner().await;
    let ahead = Some(world.now().plus(MINUTE));
    let session = world.session("s", WINDOW, |row| row.last_activity_at = ahead).await;
    assert_eq!(world.sweep().await.part(PartName::Idle).examined, 0);
    assert_eq!(world.read(&session).await.last_activity_at, ahead);
}

#[tokio::test]
async fn a_session_may_have_a_window_of_its_own() {
    for (own, idle, reaped) in
        [(HOUR, HOUR - 1, 0), (HOUR, HOUR, 1), (12 * HOUR, 12 * HOUR - 1, 0), (12 * HOUR, 12 * HOUR, 1)]
    {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = world.session("s", idle, |row| row.idle_after_ms = Some(own)).await;
        runner.hold_engine(&session.id, 1, crate::support::world::silent(24 * HOUR));
        assert_eq!(world.sweep().await.part(PartName::Idle).reaped, reaped, "{own} {idle}");
        for call in runner.calls_of(crate::support::fake_runner::Verb::End) {
            assert_eq!(call.body["limits"]["quiet_for_ms"], own, "the runner is asked with the same window");
        }
    }
}

#[tokio::test]
async fn a_call_that_the_runner_answers_with_ended_is_no_use() {
    let world = World::new().await;
    let runner = world.runner().await;
    let gone = world.held(&runner, "gone", HOUR).await;
    runner.script().end_by_itself(&gone.id, "exited", &world.clock);
    let never = world.session("never", HOUR, |_| ()).await;
    let other = world.session("other", HOUR, |_| ()).await;
    runner.hold_engine(&other.id, 2, crate::support::world::silent(0));
    let recorder = Recorder::new(world.tools.clone());

    for (session, heard) in
        [(&gone, Heard::Ended("exited".to_owned())), (&never, Heard::NotTracked), (&other, Heard::Generation)]
    {
        assert_eq!(recorder.touch(session, ActivityKind::Capture).await.unwrap(), heard);
        assert_eq!(touch_once(&world.tools, session, ActivityKind::Capture).await.unwrap(), heard);
        recorder.flush().await;
        assert_eq!(world.read(session).await.last_activity_at, session.last_activity_at);
    }
}

#[tokio::test]
async fn keeping_or_driving_an_ended_engine_closes_its_row_and_says_so() {
    for verb in ["keep", "claim"] {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = world.held(&runner, "s", HOUR).await;
        runner.script().end_by_itself(&session.id, "exited", &world.clock);
        let actor = verbs::person(&world.tools, "anna");
        let refused = match verb {
            "keep" => verbs::keep(&world.tools, &session.id, HOUR, "demo", &actor).await.err(),
            _ => verbs::claim(&world.tools, &session.id, "anna").await.err(),
        };
        assert!(matches!(refused, Some(verbs::VerbError::Ended { .. })), "{verb}: {refused:?}");
        let row = world.read(&session).await;
        assert_eq!(row.end_reason.as_deref(), Some("exited"), "{verb}");
        assert_eq!((row.last_activity_at, row.keep_until, row.driver_at), (session.last_activity_at, None, None));
    }
}

/// Touches a session, and writes what that queued: a touch that its runner need not hear of waits for its row.
async fn touch_and_write(recorder: &Recorder, session: &Session) {
    let (heard, _) = tokio::join!(recorder.touch(session, ActivityKind::Capture), recorder.flush());
    assert_eq!(heard.unwrap(), Heard::Yes);
}

#[tokio::test]
async fn a_runner_hears_of_a_use_again_after_a_twelfth_of_the_window() {
    use crate::support::fake_runner::Verb;
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", 0).await;
    let recorder = Recorder::new(world.tools.clone());
    for (passed, told) in [(0, 1), (3 * SECOND, 1), (WINDOW / 12 - 3 * SECOND - 1, 1), (1, 2), (MINUTE, 2)] {
        world.clock.advance(passed);
        touch_and_write(&recorder, &session).await;
        assert_eq!(runner.calls_of(Verb::Touch).len(), told);
    }
    world.clock.sleep(8 * HOUR);
    touch_and_write(&recorder, &session).await;
    assert_eq!(runner.calls_of(Verb::Touch).len(), 2, "the runner's clock stood still as well");
    let moved = Session { generation: 2, ..session };
    assert_eq!(recorder.touch(&moved, ActivityKind::Capture).await.unwrap(), Heard::Generation);
}
