//! What a runner's answer to something said to an engine means for whoever said it.

use crate::protocol::{FailureOutcome, TrackedSession};
use crate::runner_client::{NoAnswer, SessionReply};
use crate::session::Session;
use crate::tools::Tools;
use crate::verbs::{VerbError, close_if_ended};

/// Reads a runner's answer to `what` was said to the engine of an open session: a message, an interruption, …; returns the
/// engine as it stands, where the runner told.
///
/// # Errors
/// When the engine has ended (its row is closed then), the runner did not take it, or the store fails. Nothing was said to
/// the engine then; or, after a runner fell silent, it may have been.
pub(super) async fn taken(
    tools: &Tools,
    session: &Session,
    answer: Result<SessionReply, NoAnswer>,
    what: &str,
) -> Result<Option<Box<TrackedSession>>, VerbError> {
    let (id, runner) = (&session.id, &session.runner_id);
    match answer {
        Ok(SessionReply::Done(engine)) => Ok(engine),
        Ok(SessionReply::Ended { reason }) => {
            close_if_ended(tools, session).await?;
            Err(VerbError::Ended { id: id.clone(), reason })
        }
        Ok(SessionReply::NotTracked) => Err(VerbError::not_tracked(session)),
        Ok(SessionReply::Generation { .. }) => Err(VerbError::generation(session)),
        // Asking again changes nothing about what an engine can do.
        Ok(SessionReply::Refused { outcome: Some(FailureOutcome::Unsupported), message }) => {
            Err(VerbError::Conflict(format!("runner {runner}: {message}")))
        }
        Ok(SessionReply::Refused { message, .. }) => Err(VerbError::Runner(format!("runner {runner}: {message}"))),
        Ok(SessionReply::Unsupported) => {
            Err(VerbError::Runner(format!("runner {runner} has no way to take the {what}")))
        }
        Err(error @ NoAnswer::Unconnected(_)) => {
            Err(VerbError::Runner(format!("the {what} was not delivered: {error}")))
        }
        Err(error) => Err(VerbError::Runner(format!("the {what} may not have been delivered: {error}"))),
    }
}
