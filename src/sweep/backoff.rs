//! When a session is looked at again after a refusal or a failed stop, so that failing ones never starve the others.

use crate::protocol::Because;
use crate::session::Session;
use crate::store::StoreError;
use crate::sweep::pass::Pass;
use crate::time::{MINUTE, Ms};

/// Puts the session off after a stop that was not confirmed: at once for the first, then a minute, doubling, at most a
/// twelfth of the idle window.
pub(crate) async fn after_failure(pass: &Pass, session: &Session) -> Result<(), StoreError> {
    let last = pass.store().find_check_delay(&session.id).await?;
    let delay = next_delay(last, window(pass, session) / 12);
    postpone(pass, session, delay, delay).await
}

/// Puts the session off after a refusal. Work counts as activity of kind `engine`, now; a refusal as `active` tells when
/// the silence can be long enough.
pub(crate) async fn after_refusal(
    pass: &Pass,
    session: &Session,
    because: Option<Because>,
    idle_ms: Option<Ms>,
) -> Result<(), StoreError> {
    match (because, idle_ms) {
        (Some(Because::Generating | Because::BackgroundTasks | Because::PendingWake), _) => {
            let throttle = pass.config().policy.activity_throttle.0;
            let now = pass.clock().now();
            pass.store().note_engine_work(std::slice::from_ref(&session.id), now, throttle).await.map(|_| ())
        }
        // A runner that cannot tell an engine's state calls it active past its window too: that one is tried later.
        (Some(Because::Active), Some(idle)) if idle < window(pass, session) => {
            postpone(pass, session, window(pass, session) - idle, 0).await
        }
        (None | Some(Because::Active | Because::AwaitingInput | Because::Generation | Because::Stale), _) => {
            after_failure(pass, session).await
        }
    }
}

fn window(pass: &Pass, session: &Session) -> Ms {
    pass.config().policy.limits_of(session).idle_after_ms
}

/// Puts a session off, unless the settings were replaced since the pass began: other limits may ask for another wait.
async fn postpone(pass: &Pass, session: &Session, wait: Ms, delay: Ms) -> Result<(), StoreError> {
    if !pass.has_current_settings() {
        return Ok(());
    }
    let until = pass.clock().now().plus(wait);
    pass.store().postpone(&session.id, session.generation, until, delay).await.map(|_| ())
}

/// Returns the wait after the one that came before: none, 0, a minute, doubling up to `most`.
fn next_delay(last: Option<Ms>, most: Ms) -> Ms {
    match last {
        None => 0,
        Some(ms) if ms < MINUTE => MINUTE.min(most),
        Some(ms) => ms.saturating_mul(2).min(most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::HOUR;

    #[test]
    fn the_next_tick_is_the_first_retry_and_then_the_wait_doubles_up_to_its_bound() {
        let most = 6 * HOUR / 12;
        let mut last = None;
        let waits: Vec<Ms> = (0..8)
            .map(|_| {
                let wait = next_delay(last, most);
                last = Some(wait);
                wait / MINUTE
            })
            .collect();
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 30, 30]);
    }
}
