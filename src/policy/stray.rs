//! What is this tracked engine to the store?

use crate::config::PolicyConfig;
use crate::policy::engine::{EngineSays, may_stop};
use crate::policy::idle::finding_of;
use crate::policy::requests::requests;
use crate::policy::silence::with_silence_of_the_row;
use crate::policy::{Decision, Finding, Surroundings};
use crate::protocol::TrackedSession;
use crate::session::{Id, Session};
use crate::time::UtcMs;
use crate::verdict::Verdict;

/// How a tracked engine relates to the row of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrayCase {
    /// The row is open, on this runner, and of this generation: no stray.
    Fits,
    /// This store never knew the session; it may belong to another control plane, so it is left alone and shown.
    NeverKnown,
    /// The engine is of a later start than the row knows, as after a restored store: both are kept.
    Ahead,
    /// The row is ended, on this runner and of this generation: a reopening may fit.
    Closed,
    /// The row names another runner or a later generation by now.
    Elsewhere,
}

/// Says what a tracked engine of `runner` is to `row`, the row of its session as read after the answer.
#[must_use]
pub fn stray_case(engine: &TrackedSession, row: Option<&Session>, runner: &Id) -> StrayCase {
    let Some(row) = row else { return StrayCase::NeverKnown };
    let generation = engine.generation.unwrap_or(row.generation);
    if generation > row.generation {
        StrayCase::Ahead
    } else if row.runner_id != *runner || generation < row.generation {
        StrayCase::Elsewhere
    } else if row.is_open() {
        StrayCase::Fits
    } else {
        StrayCase::Closed
    }
}

/// A decision about a stray, and what its engine says for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrayDecision {
    /// The decision with its findings.
    pub decision: Decision,
    /// The verdict that keeps it whatever its engine says: somebody asked for that, or a brake holds.
    pub held: Option<Verdict>,
    /// Whether the engine's own state allows a stop. One that is in use may have its row opened again.
    pub says: EngineSays,
}

/// Decides whether a stray may be stopped: under the idle condition only, as any engine.
///
/// A row is closed as an orphan after minutes of quiet, so where the runner tells no silence, the row's has to be the
/// full window. Somebody who asked to keep the session, or claimed to drive it, did so perhaps before its row was closed
/// and unheard by its runner; that counts here too.
#[must_use]
pub fn stray(
    engine: &TrackedSession,
    row: &Session,
    around: Surroundings,
    policy: &PolicyConfig,
    now: UtcMs,
) -> StrayDecision {
    let limits = policy.limits_of(row).stop();
    let state = with_silence_of_the_row(&engine.state, &limits, row, now.minus(around.asleep_ms));
    let says = may_stop(&state, &limits);
    let mut findings: Vec<Finding> = requests(row, limits.quiet_for_ms, now).collect();
    findings.extend(around.brake.map(|verdict| Finding::plain(verdict, true)));
    let held = findings.iter().find(|finding| finding.keeps).map(|finding| finding.rule);
    findings.extend(finding_of(says, &state, &limits, now));
    StrayDecision { held, decision: Decision::from(findings, Verdict::Stray, limits.quiet_for_ms), says }
}
