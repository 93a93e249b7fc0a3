//! Has nothing touched this session for its window, and may its engine be stopped?

use crate::config::{PolicyConfig, SessionLimits};
use crate::policy::engine::{EngineSays, may_stop};
use crate::policy::requests::requests;
use crate::policy::silence::with_silence_of_the_row;
use crate::policy::{CLOCK_TOLERANCE, Decision, Finding, Surroundings};
use crate::protocol::{Because, EngineState, StopLimits, TrackedSession};
use crate::session::Session;
use crate::time::UtcMs;
use crate::verdict::Verdict;

/// What this pass knows of the runner of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunnerView<'a> {
    /// It answered with a recognisable tracked set; the engine, if it holds one for this session and generation.
    Live(Option<&'a TrackedSession>),
    /// It holds the session under another generation than the row.
    OtherGeneration,
    /// A foreign runner whose set could not be read; it is asked to stop all the same.
    Ask,
    /// It speaks the protocol, and what it answered in this pass is no tracked set.
    Unrecognised,
    /// It did not answer in this pass, but something at its address accepted the connection; or it cannot be reached,
    /// not yet for long enough to call the machine gone.
    Offline,
    /// Another runner, or an older state of this one, answers at its address.
    Unknown,
    /// No connection could be made in this pass and none for `runner_gone_after`, or it was never reached, or it is not
    /// enrolled; and this host has been up and awake for long enough to blame the other side.
    Gone,
}

/// The words of an engine that is at work or waits for a person.
const WORK: [Verdict; 4] =
    [Verdict::Generating, Verdict::BackgroundTasks, Verdict::AwaitingInput, Verdict::PendingWake];

/// Decides whether an open session is to be reaped as idle.
///
/// It is, if and only if the row has a time to go by, no stored time lies in the future, nobody asked to keep it, nobody
/// claimed to drive it within the window, nothing used it for the window of waking time (its own, else its rule's), and its runner either holds an engine that may
/// be stopped, holds none, must be asked, or is gone; and no brake holds, unless the machine is gone.
#[must_use]
pub fn idle(
    session: &Session,
    runner: RunnerView<'_>,
    around: Surroundings,
    policy: &PolicyConfig,
    now: UtcMs,
) -> Decision {
    let awake = now.minus(around.asleep_ms);
    let limits = policy.limits_of(session);
    let window = limits.idle_after_ms;
    let mut findings = vec![Finding::plain(Verdict::ClockUnsettled, clock_is_unsettled(session, now))];
    findings.extend(requests(session, window, now));
    let used = match session.last_used() {
        Some(at) => Finding::window(Verdict::RecentlyActive, at, window, awake).later(around.asleep_ms),
        None => Finding::plain(Verdict::Undetermined, true),
    };
    let (finding, otherwise) = runner_finding(session, runner, &limits, awake);
    // Work is what a person wants to read first; it is also what made the row recently active.
    let works = finding.as_ref().is_some_and(|finding| WORK.contains(&finding.rule));
    let pair = match finding {
        Some(finding) if works => [Some(finding), Some(used)],
        Some(finding) if finding.rule == used.rule => [Some(longer(used, finding)), None],
        finding => [Some(used), finding],
    };
    findings.extend(pair.into_iter().flatten());
    let limit = if otherwise == Verdict::AwaitingExpired { limits.awaiting_after_ms } else { window };
    Decision::from(findings, otherwise, limit).braked(around.brake)
}

/// Returns what one rule found of the row and of the engine, which keeps: whichever keeps for longer.
fn longer(row: Finding, engine: Finding) -> Finding {
    let until = |finding: &Finding| finding.until.map_or(i64::MAX, |at| at.0);
    if row.keeps && until(&row) >= until(&engine) { row } else { engine }
}

/// Returns whether a stored time of the session lies further in the future than any clock may be wrong.
#[must_use]
pub fn clock_is_unsettled(session: &Session, now: UtcMs) -> bool {
    let latest = now.plus(CLOCK_TOLERANCE);
    [session.last_activity_at, session.updated_at, session.started_at, session.attached_at, session.driver_at]
        .into_iter()
        .flatten()
        .any(|at| at > latest)
}

fn runner_finding(
    session: &Session,
    runner: RunnerView<'_>,
    limits: &SessionLimits,
    now: UtcMs,
) -> (Option<Finding>, Verdict) {
    let keeps = |rule| (Some(Finding::plain(rule, true)), Verdict::Undetermined);
    match runner {
        RunnerView::Live(Some(engine)) => engine_finding(session, engine, limits, now),
        RunnerView::Live(None) => (None, Verdict::Orphaned),
        RunnerView::Ask => (None, Verdict::Idle),
        RunnerView::Gone => (None, Verdict::MachineGone),
        RunnerView::OtherGeneration => keeps(Verdict::Undetermined),
        RunnerView::Unrecognised => keeps(Verdict::TrackedUnrecognised),
        RunnerView::Offline => keeps(Verdict::RunnerOffline),
        RunnerView::Unknown => keeps(Verdict::RunnerUnknown),
    }
}

fn engine_finding(
    session: &Session,
    engine: &TrackedSession,
    limits: &SessionLimits,
    now: UtcMs,
) -> (Option<Finding>, Verdict) {
    let limits = limits.stop();
    let state = with_silence_of_the_row(&engine.state, &limits, session, now);
    let says = may_stop(&state, &limits);
    let otherwise = if let EngineSays::MayStop(verdict) = says { verdict } else { Verdict::Undetermined };
    (finding_of(says, &state, &limits, now), otherwise)
}

/// Returns the finding of an engine that is protected.
pub(super) fn finding_of(says: EngineSays, state: &EngineState, limits: &StopLimits, now: UtcMs) -> Option<Finding> {
    match says {
        EngineSays::MayStop(_) => None,
        EngineSays::Undetermined => Some(Finding::plain(Verdict::Undetermined, true)),
        EngineSays::Protected { because, for_ms } => Some(Finding {
            value_ms: state.idle_ms.value(),
            limit_ms: (because == Because::Active).then_some(limits.quiet_for_ms),
            until: for_ms.map(|ms| now.plus(ms)),
            ..Finding::plain(keep_word(because), true)
        }),
    }
}

/// Returns the word under which a session is kept whose engine is protected for this reason.
fn keep_word(because: Because) -> Verdict {
    match because {
        Because::Generating => Verdict::Generating,
        Because::BackgroundTasks => Verdict::BackgroundTasks,
        Because::AwaitingInput => Verdict::AwaitingInput,
        Because::PendingWake => Verdict::PendingWake,
        Because::Active => Verdict::RecentlyActive,
        Because::Generation | Because::Stale => Verdict::Undetermined,
    }
}
