//! Telling a session's runner that it is used, and what the runner says to that.

use crate::protocol::TouchRequest;
use crate::runner_client::{NoAnswer, SessionReply, Target};
use crate::session::{ActivityKind, Id, Session};
use crate::store::{StoreError, Touch};
use crate::tools::Tools;

/// What the runner said to a touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// It took it, or it heard of the session a short while ago.
    Yes,
    /// It could not be reached, or is one that has no such route; the row alone has it.
    Unreached,
    /// The engine is gone or being stopped, and why. This was no use of the session.
    Ended(String),
    /// It holds no engine for the session. This was no use of the session.
    NotTracked,
    /// It holds another start of the session. This was no use of the session.
    Generation,
}

impl Heard {
    /// Returns whether the touch counts as a use of the session.
    #[must_use]
    pub fn counts(&self) -> bool {
        matches!(self, Self::Yes | Self::Unreached)
    }
}

/// Tells the session's runner that it is used, whatever it has heard before.
///
/// On behalf of the row's owner. So that the runner holds no engine may only mean that it is somebody else's: that is told,
/// and closes no row.
///
/// # Errors
/// When the store cannot say where the runner is.
pub async fn tell_runner(tools: &Tools, session: &Session, kind: ActivityKind) -> Result<Heard, StoreError> {
    let Some(runner) = tools.store.find_runner(&session.runner_id).await? else { return Ok(Heard::Unreached) };
    let (session_id, generation) = (session.id.clone(), session.generation);
    let request = TouchRequest { session_id, generation, kind, owner_id: session.owner_id.clone() };
    Ok(match tools.runners.touch(&Target::from(&runner), &request).await {
        Ok(SessionReply::Done(_)) => Heard::Yes,
        Ok(SessionReply::Ended { reason }) => Heard::Ended(reason),
        Ok(SessionReply::NotTracked) => Heard::NotTracked,
        Ok(SessionReply::Generation { .. }) => Heard::Generation,
        Ok(SessionReply::Refused { .. } | SessionReply::Unsupported) => Heard::Unreached,
        Err(
            NoAnswer::Unconnected(why)
            | NoAnswer::Unanswered(why)
            | NoAnswer::Unauthorised(why)
            | NoAnswer::Unknown(why)
            | NoAnswer::Unrecognised(why),
        ) => {
            tracing::debug!(session_id = %session.id, runner_id = %runner.id, why, "a touch did not reach the runner");
            Heard::Unreached
        }
    })
}

/// Records one use without a throttle: runner first, then row. For processes that live for one command.
///
/// # Errors
/// When the store cannot be read or written.
pub async fn touch_once(tools: &Tools, session: &Session, kind: ActivityKind) -> Result<Heard, StoreError> {
    let heard = tell_runner(tools, session, kind).await?;
    if heard.counts() {
        let touch = Touch { id: session.id.clone(), at: tools.clock.now(), kind };
        if tools.store.write_touches(&[touch]).await?.is_empty() {
            return has_ended(tools, &session.id).await;
        }
    }
    Ok(heard)
}

/// What is said to the touch of a row that was closed before the touch could be written.
pub(super) async fn has_ended(tools: &Tools, id: &Id) -> Result<Heard, StoreError> {
    let row = tools.store.find_session(id).await?;
    let reason = row.and_then(|row| row.end_reason).unwrap_or_else(|| "for an unknown reason".to_owned());
    Ok(Heard::Ended(reason))
}
