//! Claiming, renewing and releasing the right to drive a session.

use crate::session::{ActivityKind, Id, Session};
use crate::store::Claim;
use crate::tools::Tools;
use crate::verbs::{VerbError, find_open, tell};

/// The longest name of a driver.
const LONGEST_DRIVER: usize = 128;

fn check_driver(name: &str) -> Result<(), VerbError> {
    if name.trim().is_empty() || name.len() > LONGEST_DRIVER || name.chars().any(char::is_control) {
        return Err(VerbError::Invalid(format!(
            "driver must be a name of 1 to {LONGEST_DRIVER} bytes without control characters"
        )));
    }
    Ok(())
}

/// Claims the right to drive a session, or renews one's own claim. A claim older than `driver_stale_after` goes to
/// whoever claims it. Writes only the claim; the runner is told like of a touch.
///
/// # Errors
/// When the driver has no proper name, there is no such open session, somebody else holds a claim that has not lapsed, or the store fails.
pub async fn claim(tools: &Tools, id: &Id, driver: &str) -> Result<Session, VerbError> {
    check_driver(driver)?;
    let session = find_open(tools, id).await?;
    // Before the claim stands: a stop that was decided on without it must find the engine in use.
    tell(tools, &session, ActivityKind::Copilot).await?;
    let now = tools.clock.now();
    let stale_before = now.minus(tools.config().policy.limits_of(&session).driver_stale_after_ms);
    match tools.store.claim_driver(id, driver, now, stale_before).await? {
        Claim::Yours => find_open(tools, id).await,
        Claim::HeldBy { driver, since } => {
            Err(VerbError::Conflict(format!("{driver} drives session {id} since {since}")))
        }
        Claim::NotOpen => Err(VerbError::NotFound(id.clone())),
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
