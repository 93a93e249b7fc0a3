//! Baseline-and-one-change tests: each baseline makes the rule say "reap", each case changes one thing.

use super::*;
use crate::config::{Config, PolicyConfig};
use crate::protocol::{Told, TrackedSession};
use crate::session::{Run, RunStatus, Session, Status};
use crate::time::{HOUR, MINUTE};

const NOW: UtcMs = UtcMs(1_700_000_000_000);

fn policy() -> PolicyConfig {
    toml::from_str::<Config>(include_str!("../../config.toml")).expect("the shipped settings are valid").policy
}

/// A session that nothing has used for exactly its window.
fn idle_session() -> Session {
    Session {
        id: "s".parse().expect("an id"),
        runner_id: "r".parse().expect("an id"),
        owner_id: Some("me".into()),
        repo: "/src/app".into(),
        engine: "claude".into(),
        engine_session_id: None,
        status: Status::Active,
        generation: 1,
        reopened: 0,
        started_at: Some(NOW.minus(9 * HOUR)),
        attached_at: Some(NOW.minus(9 * HOUR)),
        updated_at: Some(NOW.minus(9 * HOUR)),
        last_activity_at: Some(NOW.minus(6 * HOUR)),
        last_activity_kind: None,
        driver: None,
        driver_at: None,
        keep_until: None,
        keep_reason: None,
        idle_after_ms: None,
        next_check_at: None,
        ended_at: None,
        end_reason: None,
    }
}

fn idle_engine() -> TrackedSession {
    let mut engine = TrackedSession::bare("s".parse().expect("an id"));
    engine.generation = Some(1);
    engine.state.generating = Told::Is(false);
    engine.state.idle_ms = Told::Is(6 * HOUR);
    engine
}

fn idle_with(change: impl FnOnce(&mut Session)) -> Verdict {
    let mut session = idle_session();
    change(&mut session);
    idle(&session, RunnerView::Live(Some(&idle_engine())), Surroundings::default(), &policy(), NOW).verdict
}

/// Checks a limit on both sides: `keep` one millisecond before, `reap` at it and after.
fn limit(keep: Verdict, reap: Verdict, limit: Ms, verdict_at: impl Fn(Ms) -> Verdict) {
    assert_eq!(verdict_at(limit - 1), keep, "one millisecond before {limit}");
    assert_eq!(verdict_at(limit), reap, "at {limit}");
    assert_eq!(verdict_at(limit + 1), reap, "one millisecond after {limit}");
}

#[test]
fn the_idle_baseline_is_reaped() {
    assert_eq!(idle_with(|_| ()), Verdict::Idle);
}

#[test]
fn activity_keeps_until_exactly_the_window() {
    limit(Verdict::RecentlyActive, Verdict::Idle, 6 * HOUR, |age| {
        idle_with(|s| s.last_activity_at = Some(NOW.minus(age)))
    });
}

#[test]
fn a_window_of_its_own_replaces_the_rules() {
    limit(Verdict::RecentlyActive, Verdict::Idle, 7 * HOUR, |age| {
        let mut session = idle_session();
        session.idle_after_ms = Some(7 * HOUR);
        session.last_activity_at = Some(NOW.minus(age));
        let mut engine = idle_engine();
        engine.state.idle_ms = Told::Is(8 * HOUR);
        idle(&session, RunnerView::Live(Some(&engine)), Surroundings::default(), &policy(), NOW).verdict
    });
}

#[test]
fn missing_activity_falls_back_to_updated_then_started() {
    limit(Verdict::RecentlyActive, Verdict::Idle, 6 * HOUR, |age| {
        idle_with(|s| {
            s.last_activity_at = None;
            s.updated_at = Some(NOW.minus(age));
        })
    });
    limit(Verdict::RecentlyActive, Verdict::Idle, 6 * HOUR, |age| {
        idle_with(|s| {
            s.last_activity_at = None;
            s.updated_at = None;
            s.started_at = Some(NOW.minus(age));
        })
    });
    let none = idle_with(|s| {
        s.last_activity_at = None;
        s.updated_at = None;
        s.started_at = None;
    });
    assert_eq!(none, Verdict::Undetermined);
}

#[test]
fn a_drivers_claim_keeps_for_the_window_lapsed_or_not() {
    limit(Verdict::DriverClaimed, Verdict::Idle, 6 * HOUR, |age| idle_with(|s| s.driver_at = Some(NOW.minus(age))));
    assert_eq!(idle_with(|s| s.driver_at = Some(NOW.minus(5 * HOUR))), Verdict::DriverClaimed);
}

#[test]
fn a_keep_keeps_until_it_lapses() {
    assert_eq!(idle_with(|s| s.keep_until = Some(NOW.plus(1))), Verdict::KeptByRequest);
    assert_eq!(idle_with(|s| s.keep_until = Some(NOW)), Verdict::Idle);
    assert_eq!(idle_with(|s| s.keep_until = Some(NOW.minus(1))), Verdict::Idle);
}

#[test]
fn a_time_in_the_future_is_no_ground_for_anything() {
    let fields: [fn(&mut Session, UtcMs); 4] = [
        |s, at| s.updated_at = Some(at),
        |s, at| s.started_at = Some(at),
        |s, at| s.attached_at = Some(at),
        |s, at| s.driver_at = Some(at),
    ];
    for set in fields {
        assert_eq!(idle_with(|s| set(s, NOW.plus(CLOCK_TOLERANCE + 1))), Verdict::ClockUnsettled);
    }
    assert_eq!(idle_with(|s| s.updated_at = Some(NOW.plus(CLOCK_TOLERANCE))), Verdict::Idle);
    let near = idle_with(|s| s.last_activity_at = Some(NOW.plus(CLOCK_TOLERANCE)));
    assert_eq!(near, Verdict::RecentlyActive);
}

#[test]
fn the_runner_decides_what_the_row_cannot() {
    let session = idle_session();
    let verdict = |view| idle(&session, view, Surroundings::default(), &policy(), NOW).verdict;
    assert_eq!(verdict(RunnerView::Live(None)), Verdict::Orphaned);
    assert_eq!(verdict(RunnerView::Ask), Verdict::Idle);
    assert_eq!(verdict(RunnerView::Gone), Verdict::MachineGone);
    assert_eq!(verdict(RunnerView::OtherGeneration), Verdict::Undetermined);
    assert_eq!(verdict(RunnerView::Unrecognised), Verdict::TrackedUnrecognised);
    assert_eq!(verdict(RunnerView::Offline), Verdict::RunnerOffline);
    assert_eq!(verdict(RunnerView::Unknown), Verdict::RunnerUnknown);
}

#[test]
fn a_busy_engine_keeps_an_idle_row() {
    type Case = (Verdict, fn(&mut TrackedSession));
    let cases: [Case; 6] = [
        (Verdict::Generating, |e| e.state.generating = Told::Is(true)),
        (Verdict::BackgroundTasks, |e| e.state.background_tasks = Told::Is(1)),
        (Verdict::AwaitingInput, |e| e.state.awaiting_input = Told::Is(true)),
        (Verdict::PendingWake, |e| e.state.next_wake_in_ms = Some(0)),
        (Verdict::RecentlyActive, |e| e.state.idle_ms = Told::Is(6 * HOUR - 1)),
        (Verdict::Undetermined, |e| e.state.generating = Told::Unknown),
    ];
    for (expected, change) in cases {
        let mut engine = idle_engine();
        engine.state.turn_silent_ms = Some(0);
        change(&mut engine);
        let decision = idle(&idle_session(), RunnerView::Live(Some(&engine)), Surroundings::default(), &policy(), NOW);
        assert_eq!(decision.verdict, expected);
    }
}

#[test]
fn row_and_engine_are_one_finding_and_the_later_use_counts() {
    for (row_age, engine_age, due_in) in
        [(HOUR, 2 * HOUR, 5 * HOUR), (2 * HOUR, HOUR, 5 * HOUR), (7 * HOUR, HOUR, 5 * HOUR)]
    {
        let mut session = idle_session();
        session.last_activity_at = Some(NOW.minus(row_age));
        let mut engine = idle_engine();
        engine.state.idle_ms = Told::Is(engine_age);
        let decision = idle(&session, RunnerView::Live(Some(&engine)), Surroundings::default(), &policy(), NOW);
        let rules = decision.findings.iter().filter(|finding| finding.rule == Verdict::RecentlyActive).count();
        assert_eq!((decision.verdict, rules), (Verdict::RecentlyActive, 1), "{decision:?}");
        assert_eq!(decision.due_at(), Some(NOW.plus(due_in)), "{decision:?}");
        assert_eq!(decision.finding(Verdict::RecentlyActive).and_then(|finding| finding.value_ms), Some(HOUR));
    }
}

#[test]
fn a_runner_that_tells_no_silence_is_judged_by_the_rows() {
    let verdict = |age, change: fn(&mut TrackedSession)| {
        let mut session = idle_session();
        session.last_activity_at = Some(NOW.minus(age));
        session.started_at = Some(NOW.minus(age));
        let mut engine = TrackedSession::bare(session.id.clone());
        change(&mut engine);
        idle(&session, RunnerView::Live(Some(&engine)), Surroundings::default(), &policy(), NOW).verdict
    };
    limit(Verdict::AwaitingInput, Verdict::AwaitingExpired, 24 * HOUR, |age| {
        verdict(age, |e| e.state.awaiting_input = Told::Is(true))
    });
    limit(Verdict::Undetermined, Verdict::Idle, 24 * HOUR, |age| verdict(age, |e| e.state.generating = Told::Unknown));
    assert_eq!(verdict(90 * HOUR, |e| e.state.generating = Told::Is(true)), Verdict::Generating);
    assert_eq!(verdict(90 * HOUR, |e| e.state.background_tasks = Told::Is(1)), Verdict::BackgroundTasks);
    assert_eq!(verdict(6 * HOUR, |_| ()), Verdict::Idle);
}

#[test]
fn explain_tells_when_the_last_keeping_rule_lapses() {
    let mut session = idle_session();
    session.last_activity_at = Some(NOW.minus(HOUR));
    session.keep_until = Some(NOW.plus(8 * HOUR));
    let decision = idle(&session, RunnerView::Live(None), Surroundings::default(), &policy(), NOW);
    assert_eq!(decision.due_at(), Some(NOW.plus(8 * HOUR)));
    let offline = idle(&session, RunnerView::Offline, Surroundings::default(), &policy(), NOW);
    assert_eq!(offline.due_at(), None, "nobody can tell when a runner returns");
}

/// A row that is an orphan at the question's time: past both limits and not in the answer.
fn orphan_with(asked: Asked, change: impl FnOnce(&mut Session)) -> Verdict {
    let mut session = idle_session();
    session.attached_at = Some(NOW.minus(3 * MINUTE));
    session.last_activity_at = Some(NOW.minus(5 * MINUTE));
    change(&mut session);
    orphan(&session, asked, &policy()).verdict
}

const UNTRACKED: Asked = Asked { at: NOW, tracked: false };

#[test]
fn an_orphan_is_past_both_limits() {
    assert_eq!(orphan_with(UNTRACKED, |_| ()), Verdict::Orphaned);
    limit(Verdict::NewSession, Verdict::Orphaned, 3 * MINUTE, |age| {
        orphan_with(UNTRACKED, |s| s.attached_at = Some(NOW.minus(age)))
    });
    limit(Verdict::NotQuiet, Verdict::Orphaned, 5 * MINUTE, |age| {
        orphan_with(UNTRACKED, |s| s.last_activity_at = Some(NOW.minus(age)))
    });
}

#[test]
fn what_is_tracked_or_unsettled_is_no_orphan() {
    assert_eq!(orphan_with(Asked { at: NOW, tracked: true }, |_| ()), Verdict::Tracked);
    assert_eq!(orphan_with(UNTRACKED, |s| s.status = Status::Starting), Verdict::NewSession);
    assert_eq!(orphan_with(UNTRACKED, |s| s.updated_at = Some(NOW.plus(HOUR))), Verdict::ClockUnsettled);
    let timeless = orphan_with(UNTRACKED, |s| {
        s.started_at = None;
        s.attached_at = None;
    });
    assert_eq!(timeless, Verdict::Undetermined);
}

#[test]
fn what_happened_after_the_question_cannot_be_in_the_answer() {
    let mut eager = policy();
    eager.orphan_grace = crate::time::Span(0);
    eager.orphan_quiet = crate::time::Span(0);
    let mut session = idle_session();
    session.attached_at = Some(NOW);
    assert_eq!(orphan(&session, UNTRACKED, &eager).verdict, Verdict::NewSession);
    session.attached_at = Some(NOW.minus(1));
    session.last_activity_at = Some(NOW);
    assert_eq!(orphan(&session, UNTRACKED, &eager).verdict, Verdict::NotQuiet);
    session.last_activity_at = Some(NOW.minus(1));
    assert_eq!(orphan(&session, UNTRACKED, &eager).verdict, Verdict::Orphaned);
}

#[test]
fn a_start_is_overdue_at_exactly_its_timeout() {
    let overdue = |age| {
        let session = Session { status: Status::Starting, attached_at: Some(NOW.minus(age)), ..idle_session() };
        start_overdue(&session, NOW, &policy())
    };
    assert_eq!([2 * MINUTE - 1, 2 * MINUTE, 2 * MINUTE + 1].map(overdue), [false, true, true]);
    assert!(!start_overdue(&idle_session(), NOW, &policy()), "an active row is not starting");
}

#[test]
fn a_run_is_stale_at_exactly_its_limit() {
    let run = |status, age| Run {
        id: "run".parse().expect("an id"),
        session_id: "s".parse().expect("an id"),
        status,
        opened_session: false,
        started_at: NOW.minus(9 * HOUR),
        heartbeat_at: Some(NOW.minus(age)),
        finished_at: None,
        stale_at: None,
        result: None,
    };
    let stale = |age| run_is_stale(&run(RunStatus::Running, age), &policy(), NOW);
    assert_eq!([15 * MINUTE - 1, 15 * MINUTE, 15 * MINUTE + 1].map(stale), [false, true, true]);
    assert!(!run_is_stale(&run(RunStatus::Failed, HOUR), &policy(), NOW));
    let never_beat = Run { heartbeat_at: None, ..run(RunStatus::Running, 0) };
    assert!(run_is_stale(&never_beat, &policy(), NOW), "the start stands in for a missing heartbeat");
}

#[test]
fn a_stray_of_a_plain_runner_needs_the_rows_full_silence() {
    let says = |age| {
        let row = Session { status: Status::Ended, last_activity_at: Some(NOW.minus(age)), ..idle_session() };
        match stray(&TrackedSession::bare(row.id.clone()), &row, Surroundings::default(), &policy(), NOW).says {
            engine::EngineSays::MayStop(verdict) => verdict,
            engine::EngineSays::Protected { .. } => Verdict::Refused,
            engine::EngineSays::Undetermined => Verdict::Undetermined,
        }
    };
    limit(Verdict::Refused, Verdict::Idle, 6 * HOUR, says);
}

#[test]
fn what_people_asked_for_and_brakes_hold_a_stray_whatever_its_engine_says() {
    let held = |change: fn(&mut Session), brake| {
        let mut row = Session { status: Status::Ended, ..idle_session() };
        change(&mut row);
        let judged = stray(&idle_engine(), &row, Surroundings { brake, asleep_ms: 0 }, &policy(), NOW);
        assert_eq!(judged.held.is_none(), judged.decision.reaps(), "{judged:?}");
        judged.held
    };
    assert_eq!(held(|_| (), None), None);
    assert_eq!(held(|row| row.keep_until = Some(NOW.plus(1)), None), Some(Verdict::KeptByRequest));
    assert_eq!(held(|row| row.driver_at = Some(NOW.minus(6 * HOUR - 1)), None), Some(Verdict::DriverClaimed));
    assert_eq!(held(|row| row.driver_at = Some(NOW.minus(6 * HOUR)), None), None);
    assert_eq!(held(|_| (), Some(Verdict::ClockUnsettled)), Some(Verdict::ClockUnsettled));
}

fn braked_by(verdict: Verdict) -> Surroundings {
    Surroundings { brake: Some(verdict), asleep_ms: 0 }
}

#[test]
fn what_this_host_slept_through_is_no_silence() {
    let mut session = idle_session();
    session.last_activity_at = Some(NOW.minus(9 * HOUR));
    let verdict = |asleep_ms| {
        let around = Surroundings { brake: None, asleep_ms };
        idle(&session, RunnerView::Ask, around, &policy(), NOW)
    };
    assert_eq!(verdict(3 * HOUR).verdict, Verdict::Idle);
    let slept = verdict(3 * HOUR + 1);
    assert_eq!((slept.verdict, slept.due_at()), (Verdict::RecentlyActive, Some(NOW.plus(1))));
}

#[test]
fn a_brake_holds_a_stop_and_is_one_of_the_findings() {
    let engine = idle_engine();
    let braked = |view| idle(&idle_session(), view, braked_by(Verdict::RunnerOffline), &policy(), NOW);
    let decision = braked(RunnerView::Live(Some(&engine)));
    assert_eq!(decision.verdict, Verdict::RunnerOffline);
    assert!(decision.finding(Verdict::RunnerOffline).is_some_and(|finding| finding.keeps));
    assert_eq!(braked(RunnerView::Gone).verdict, Verdict::MachineGone, "there is nothing to stop");
}

#[test]
fn a_reap_names_the_limit_that_it_rests_on() {
    let mut engine = idle_engine();
    engine.state.awaiting_input = Told::Is(true);
    engine.state.awaiting_ms = Some(24 * HOUR);
    let waited = idle(&idle_session(), RunnerView::Live(Some(&engine)), Surroundings::default(), &policy(), NOW);
    assert_eq!((waited.verdict, waited.limit_ms), (Verdict::AwaitingExpired, Some(24 * HOUR)));
    let own = Session { idle_after_ms: Some(HOUR), ..idle_session() };
    assert_eq!(idle(&own, RunnerView::Ask, Surroundings::default(), &policy(), NOW).limit_ms, Some(HOUR));
}

#[test]
fn a_tracked_engine_is_told_from_its_row() {
    let runner: crate::session::Id = "r".parse().expect("an id");
    let row = |status, generation, on: &str| Session {
        status,
        generation,
        runner_id: on.parse().expect("an id"),
        ..idle_session()
    };
    let case = |row: Option<&Session>| stray_case(&idle_engine(), row, &runner);
    assert_eq!(case(None), StrayCase::NeverKnown);
    assert_eq!(case(Some(&row(Status::Active, 1, "r"))), StrayCase::Fits);
    assert_eq!(case(Some(&row(Status::Ended, 1, "r"))), StrayCase::Closed);
    assert_eq!(case(Some(&row(Status::Active, 1, "other"))), StrayCase::Elsewhere);
    assert_eq!(case(Some(&row(Status::Active, 2, "r"))), StrayCase::Elsewhere);
    let mut ahead = idle_engine();
    ahead.generation = Some(2);
    assert_eq!(stray_case(&ahead, Some(&row(Status::Ended, 1, "r")), &runner), StrayCase::Ahead);
}
