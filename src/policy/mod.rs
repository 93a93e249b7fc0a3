//! The rules, pure: facts + limits + now → verdict with its evidence.
//!
//! Every part of a sweep, `explain`, the dry run and the runner itself ask these functions; nothing else decides. Each
//! decision lists a [`Finding`] per rule that was looked at, so that the evidence is the decision and not a second
//! telling of it. The first finding that keeps gives the verdict; when none keeps, the session may be reaped.
//!
//! The limits are inclusive: exactly at a limit is past it, one millisecond before is not.

pub mod engine;
mod idle;
mod orphan;
mod requests;
mod run;
mod silence;
mod stray;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use idle::{RunnerView, clock_is_unsettled, idle};
pub use orphan::{Asked, orphan, start_overdue};
pub use run::run_is_stale;
pub use stray::{StrayCase, StrayDecision, stray, stray_case};

use crate::time::{Ms, UtcMs};
use crate::verdict::Verdict;

/// A stored time further in the future than this cannot be right. Clocks of machines that run a time service differ
/// by far less.
pub const CLOCK_TOLERANCE: Ms = crate::time::MINUTE;

/// What one rule found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Finding {
    /// The word under which the rule keeps a session.
    pub rule: Verdict,
    /// Whether it keeps this one.
    pub keeps: bool,
    /// The age or duration that the rule looked at, where it looks at one.
    pub value_ms: Option<Ms>,
    /// The limit that it compared with.
    pub limit_ms: Option<Ms>,
    /// When it stops keeping if nothing happens; none when that cannot be told.
    pub until: Option<UtcMs>,
}

impl Finding {
    /// Makes a finding that rests on no figure.
    fn plain(rule: Verdict, keeps: bool) -> Self {
        Self { rule, keeps, value_ms: None, limit_ms: None, until: None }
    }

    /// Makes a finding that keeps while less than `limit` has passed since `since`.
    fn window(rule: Verdict, since: UtcMs, limit: Ms, now: UtcMs) -> Self {
        let value = now.since(since);
        Self {
            rule,
            keeps: value < limit,
            value_ms: Some(value),
            limit_ms: Some(limit),
            until: Some(since.plus(limit)),
        }
    }

    /// Puts off when it stops keeping.
    fn later(self, by: Ms) -> Self {
        Self { until: self.until.map(|at| at.plus(by)), ..self }
    }
}

/// What the pass adds to the facts about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// What holds every stop on the session's runner back just now.
    pub brake: Option<Verdict>,
    /// How much of the row's silence this host slept through, or never was: none where a runner measures silence itself.
    pub asleep_ms: Ms,
}

/// A verdict and the findings that it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What it came to.
    pub verdict: Verdict,
    /// Every rule that was looked at, in order.
    pub findings: Vec<Finding>,
    /// The limit that a reap rests on, where it rests on one.
    pub limit_ms: Option<Ms>,
}

impl Decision {
    fn from(findings: Vec<Finding>, otherwise: Verdict, limit_ms: Ms) -> Self {
        let keeping = findings.iter().find(|finding| finding.keeps);
        let verdict = keeping.map_or(otherwise, |finding| finding.rule);
        Self { verdict, limit_ms: keeping.map_or(Some(limit_ms), |finding| finding.limit_ms), findings }
    }

    /// Lets a brake hold back what asks for a stop. What only closes a row is no brake's business.
    fn braked(mut self, brake: Option<Verdict>) -> Self {
        if let Some(verdict) = brake.filter(|_| self.reaps() && self.verdict != Verdict::MachineGone) {
            self.findings.push(Finding::plain(verdict, true));
            (self.verdict, self.limit_ms) = (verdict, None);
        }
        self
    }

    /// Returns whether the session is to be reaped.
    #[must_use]
    pub fn reaps(&self) -> bool {
        self.verdict.ends()
    }

    /// Returns when the session would be reaped if nothing happens: when the last keeping rule lapses; none when one of
    /// them does not tell.
    #[must_use]
    pub fn due_at(&self) -> Option<UtcMs> {
        self.findings
            .iter()
            .filter(|finding| finding.keeps)
            .map(|finding| finding.until)
            .max_by_key(|until| until.map_or(i64::MAX, |at| at.0))?
    }

    /// Returns the finding of `rule`, if it was looked at.
    #[must_use]
    pub fn finding(&self, rule: Verdict) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.rule == rule)
    }
}
