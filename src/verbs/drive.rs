//! Claiming, renewing and releasing the right to drive a session, and saying who has it.

use crate::session::{ActivityKind, Id, Session};
use crate::store::Claim;
use crate::time::{Ms, UtcMs};
use crate::tools::Tools;
use crate::verbs::{VerbError, find_open, gone_since, tell};

/// The longest name of a driver.
const LONGEST_DRIVER: usize = 128;

/// A claim to drive a session, as it stands at one moment. Computed on reading; nothing is ever written when one lapses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driving {
    /// Who claimed it.
    pub driver: String,
    /// When the claim was made or renewed; none in a row that does not say.
    pub since: Option<UtcMs>,
    /// When it lapses, or lapsed, unless it is renewed.
    pub lapses_at: Option<UtcMs>,
    /// Whether it no longer gives the right to drive, so that whoever claims it next gets it.
    pub lapsed: bool,
}

/// Returns the claim on a session at `now`, where there is one. It lapses when it is `driver_stale_after` old, exactly.
#[must_use]
pub fn driving(session: &Session, driver_stale_after: Ms, now: UtcMs) -> Option<Driving> {
    let driver = session.driver.clone()?;
    let since = session.driver_at;
    let lapses_at = since.map(|at| at.plus(driver_stale_after));
    let lapsed = lapses_at.is_none_or(|at| at <= now);
    Some(Driving { driver, since, lapses_at, lapsed })
}

fn check_driver(name: &str) -> Result<(), VerbError> {
    if name.trim().is_empty() || name.len() > LONGEST_DRIVER || name.chars().any(char::is_control) {
        return Err(VerbError::Invalid(format!(
            "driver must be a name of 1 to {LONGEST_DRIVER} bytes without control characters"
        )));
    }
    Ok(())
}

/// Claims the right to drive a session, or renews one's own claim.
///
/// A claim older than `driver_stale_after` goes to whoever claims it; of two at once one gets it. Writes only the claim;
/// the runner is told like of a touch.
///
/// # Errors
/// When the driver has no proper name, there is no such open session, somebody else holds a claim that has not lapsed, or the store fails.
pub async fn claim(tools: &Tools, id: &Id, driver: &str) -> Result<Session, VerbError> {
    check_driver(driver)?;
    let session = find_open(tools, id).await?;
    // Before the claim stands: a stop that was decided on without it must find the engine in use.
    tell(tools, &session, ActivityKind::Copilot).await?;
    let (now, stale_after) = (tools.clock.now(), tools.config().policy.limits_of(&session).driver_stale_after_ms);
    match tools.store.claim_driver(id, driver, now, now.minus(stale_after)).await? {
        Claim::Yours => find_open(tools, id).await,
        Claim::HeldBy { driver, since } => Err(VerbError::Conflict(format!(
            "{driver} drives session {id} since {since}, until {} unless the claim is renewed",
            since.plus(stale_after)
        ))),
        // It has ended since it was found.
        Claim::NotOpen => Err(gone_since(tools, id).await),
    }
}

/// Gives up the right to drive a session; harmless when it is not held.
///
/// # Errors
/// When the driver has no proper name, there is no such open session, or the store fails.
pub async fn release(tools: &Tools, id: &Id, driver: &str) -> Result<Session, VerbError> {
    check_driver(driver)?;
    find_open(tools, id).await?;
    tools.store.release_driver(id, driver).await?;
    find_open(tools, id).await
}
