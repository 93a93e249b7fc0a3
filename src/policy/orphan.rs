//! Is this open row an orphan: its live runner holds no engine for it?

use crate::config::PolicyConfig;
use crate::policy::{Decision, Finding, clock_is_unsettled};
use crate::session::{Session, Status};
use crate::time::UtcMs;
use crate::verdict::Verdict;

/// When a runner was asked for its tracked set, and whether this row was in the recognised answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The time right before the question left.
    pub at: UtcMs,
    /// Whether the answer lists the session, under whatever generation.
    pub tracked: bool,
}

/// Decides whether an open row, read after a recognised answer of its live runner, is an orphan.
///
/// It is, if and only if the answer does not list it, the row is `active`, its engine was last started at least
/// `orphan_grace` before the question, and nothing used it for `orphan_quiet` before the question. What happened after
/// the question cannot be in the answer, so the question's time is what everything is compared with.
#[must_use]
pub fn orphan(session: &Session, asked: Asked, policy: &PolicyConfig) -> Decision {
    let limits = policy.limits_of(session);
    let mut findings = vec![
        Finding::plain(Verdict::Tracked, asked.tracked),
        Finding::plain(Verdict::ClockUnsettled, clock_is_unsettled(session, asked.at)),
    ];
    findings.push(match session.attached_at.or(session.started_at) {
        Some(at) => {
            let grace = Finding::window(Verdict::NewSession, at, limits.orphan_grace_ms, asked.at);
            let keeps = grace.keeps || session.status == Status::Starting || at >= asked.at;
            Finding { keeps, ..grace }
        }
        None => Finding::plain(Verdict::Undetermined, true),
    });
    findings.push(match session.last_used() {
        Some(at) => {
            let quiet = Finding::window(Verdict::NotQuiet, at, limits.orphan_quiet_ms, asked.at);
            Finding { keeps: quiet.keeps || at >= asked.at, ..quiet }
        }
        None => Finding::plain(Verdict::Undetermined, true),
    });
    Decision::from(findings, Verdict::Orphaned, limits.orphan_quiet_ms)
}

/// Returns whether a row has been in `starting` for longer than `start_timeout` at the time its runner was asked.
#[must_use]
pub fn start_overdue(session: &Session, asked_at: UtcMs, policy: &PolicyConfig) -> bool {
    let since = session.attached_at.or(session.started_at).or(session.updated_at);
    session.status == Status::Starting && since.is_some_and(|at| asked_at.since(at) >= policy.start_timeout.0)
}
