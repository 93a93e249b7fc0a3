//! What is this tracked engine to the store?

use crate::config::PolicyConfig;
use crate::policy::engine::{EngineSays, may_stop};
use crate::policy::silence::with_silence_of_the_row;
use crate::protocol::TrackedSession;
use crate::session::{Id, Session};
use crate::time::UtcMs;

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

/// Decides whether a stray may be stopped: under the idle condition only, as any engine.
///
/// A row is closed as an orphan after minutes of quiet, so where the runner tells no silence, the row's has to be the
/// full window.
#[must_use]
pub fn stray_may_stop(engine: &TrackedSession, row: &Session, policy: &PolicyConfig, now: UtcMs) -> EngineSays {
    let limits = policy.stop_limits(row.idle_after_ms);
    may_stop(&with_silence_of_the_row(&engine.state, &limits, row, now), &limits)
}
