//! What people asked for: to keep a session, or to drive it. It holds for whatever would end the session.

use crate::policy::Finding;
use crate::session::Session;
use crate::time::{Ms, UtcMs};
use crate::verdict::Verdict;

/// Looks at what was asked for. A claim to drive keeps for the whole idle `window`, lapsed or not.
pub(super) fn requests(session: &Session, window: Ms, now: UtcMs) -> impl Iterator<Item = Finding> {
    let kept = session
        .keep_until
        .map(|until| Finding { until: Some(until), ..Finding::plain(Verdict::KeptByRequest, until > now) });
    let driven = session.driver_at.map(|at| Finding::window(Verdict::DriverClaimed, at, window, now));
    kept.into_iter().chain(driven)
}
