//! Telling before an idle reap: one entry per deadline, `policy.warn_before` ahead of it. It delays nothing and touches no
//! row.
//!
//! A warning is worth something only while there is time to act on it, and not where a session is used now and then
//! anyway: where `warn_before` is more than half of the window, it comes when a quarter of the window is left.

use crate::policy::{Decision, RunnerView};
use crate::session::Session;
use crate::store::{DueSoonCursor, StoreError, Windows};
use crate::sweep::act;
use crate::sweep::observe::view;
use crate::sweep::pass::Pass;
use crate::sweep::reap::decide_on_latest;
use crate::time::{Ms, UtcMs};
use crate::timeline::{self, Grounds};
use crate::verdict::Verdict;

/// How many rows are read at once.
const PAGE: u32 = 1_000;

/// Warns of every reap that is due soon and not due yet. A dry run writes nothing, and a paused reaper would not keep its
/// word. A failure is only logged: no reap depends on it.
pub(crate) async fn warn(pass: &Pass) {
    log(pass, warn_all(pass).await);
}

/// Warns of the end of a session that a decision keeps, if it is due soon and nobody was told of this deadline. A failure
/// is only logged.
pub(crate) async fn consider(pass: &Pass, session: &Session, decision: &Decision) {
    log(pass, warn_of(pass, session, decision).await);
}

fn log(pass: &Pass, warned: Result<(), StoreError>) {
    if let Err(error) = warned {
        tracing::warn!(sweep_id = %pass.id, %error, "a coming reap was not told of and is told of by the next pass");
    }
}

async fn warn_all(pass: &Pass) -> Result<(), StoreError> {
    let (policy, before) = (&pass.config().policy, pass.config().policy.warn_before.0);
    if before <= 0 || pass.request.dry_run || pass.is_paused().await? {
        return Ok(());
    }
    let (now, windows) =
        (pass.clock().now(), Windows { shortest: policy.shortest_idle_after(), longest: policy.longest_idle_after() });
    let mut after = DueSoonCursor::default();
    loop {
        let page = pass.store().list_due_soon((now, before), windows, &mut after, PAGE).await?;
        if page.is_empty() || pass.cancel.is_cancelled() {
            return Ok(());
        }
        for session in page {
            let decision = decide_on_latest(pass, &session).await;
            warn_of(pass, &session, &decision).await?;
        }
    }
}

/// What must be true: the policy keeps it only for its last use, a driver's claim or a request to keep it, all of which
/// lapse within `warn_before`; and its runner does not say that it holds no engine for it, which is no idle reap.
async fn warn_of(pass: &Pass, session: &Session, decision: &Decision) -> Result<(), StoreError> {
    let now = pass.clock().now();
    let window = pass.config().policy.limits_of(session).idle_after_ms;
    let Some(due_at) = due_soon(decision, span(pass.config().policy.warn_before.0, window), now) else { return Ok(()) };
    let Some(deadline) = deadline(session, window) else { return Ok(()) };
    let once = timeline::warned_once(session, deadline);
    if pass.request.dry_run || pass.store().has_entry(&session.id, &once).await? || pass.is_paused().await? {
        return Ok(());
    }
    let Some(post) = pass.posts.get(&session.runner_id) else {
        let grounds = act::unobserved_grounds(pass, session).with(decision);
        return tell(pass, grounds, (due_at, deadline)).await;
    };
    let observed = post.latest().await;
    if matches!(view(pass, session, Some((post, &*observed)), now), RunnerView::Live(None)) {
        return Ok(());
    }
    tell(pass, act::grounds(pass, session, &observed).with(decision), (due_at, deadline)).await
}

async fn tell(pass: &Pass, grounds: Grounds<'_>, when: (UtcMs, UtcMs)) -> Result<(), StoreError> {
    let entry = timeline::warned(grounds, when, &pass.actor(), pass.clock().now());
    pass.store().add_entry(&entry).await.map(drop)
}

/// Returns when the session is due, if that is soon and not yet.
fn due_soon(decision: &Decision, span: Ms, now: UtcMs) -> Option<UtcMs> {
    let lapses = [Verdict::RecentlyActive, Verdict::DriverClaimed, Verdict::KeptByRequest];
    let due_at = decision.due_at().filter(|_| lapses.contains(&decision.verdict))?;
    (due_at > now && due_at <= now.plus(span)).then_some(due_at)
}

/// Returns how long before the end of a window a warning comes.
fn span(before: Ms, window: Ms) -> Ms {
    if before > window / 2 { window / 4 } else { before }
}

/// Returns the deadline as the row tells it, which moves only when the row does: a runner's own measure of silence differs
/// by milliseconds from pass to pass.
fn deadline(session: &Session, window: Ms) -> Option<UtcMs> {
    let used = session.last_used().map(|at| at.plus(window));
    let driven = session.driver_at.map(|at| at.plus(window));
    [used, driven, session.keep_until].into_iter().flatten().max()
}

#[cfg(test)]
mod tests {
    use super::span;
    use crate::time::{HOUR, MINUTE};

    #[test]
    fn a_short_window_is_warned_of_in_its_last_quarter() {
        assert_eq!(span(15 * MINUTE, 6 * HOUR), 15 * MINUTE);
        assert_eq!(span(15 * MINUTE, 30 * MINUTE), 15 * MINUTE);
        assert_eq!(span(15 * MINUTE, 20 * MINUTE), 5 * MINUTE);
        assert_eq!(span(15 * MINUTE, 4 * MINUTE), MINUTE);
        assert_eq!(span(0, HOUR), 0);
    }
}
