//! Giving a session's engine a message.

use crate::protocol::MessageRequest;
use crate::runner_client::SessionReply;
use crate::session::{ActivityKind, Id, Session};
use crate::store::Touch;
use crate::tools::Tools;
use crate::verbs::{VerbError, close_if_ended, find_open, once_ready, runner_of};

/// Gives the engine of a session a message; done only once its runner took it.
///
/// # Errors
/// When the message is empty, there is no such open session, its engine has ended (its row is closed then), its runner does not take the
/// message, or the store fails. The message was not delivered then, or, after a runner fell silent, may have been.
pub async fn send(tools: &Tools, id: &Id, text: &str) -> Result<Session, VerbError> {
    if text.is_empty() {
        return Err(VerbError::Invalid("the message is empty".to_owned()));
    }
    let session = find_open(tools, id).await?;
    let target = runner_of(tools, &session.runner_id).await?;
    let request = MessageRequest {
        session_id: session.id.clone(),
        generation: session.generation,
        text: text.to_owned(),
        message_id: None,
        wait: false,
        owner_id: session.owner_id.clone(),
    };
    let runner = &session.runner_id;
    match once_ready(tools, &target, || tools.runners.message(&target, &request)).await {
        Ok(SessionReply::Done(_)) => {
            let touch = Touch { id: session.id.clone(), at: tools.clock.now(), kind: ActivityKind::Message };
            tools.store.write_touches(&[touch]).await?;
            find_open(tools, id).await
        }
        Ok(SessionReply::Ended { reason }) => {
            close_if_ended(tools, &session).await?;
            Err(VerbError::Ended { id: session.id.clone(), reason })
        }
        Ok(SessionReply::NotTracked) => Err(VerbError::Runner(format!(
            "runner {runner} holds no engine for session {id}; the message was not delivered"
        ))),
        Ok(SessionReply::Generation { .. }) => {
            Err(VerbError::Conflict(format!("runner {runner} holds another start of session {id}")))
        }
        Ok(SessionReply::Refused { message, .. }) => Err(VerbError::Runner(format!("runner {runner}: {message}"))),
        Ok(SessionReply::Unsupported) => Err(VerbError::Runner(format!("runner {runner} takes no messages"))),
        Err(error) => Err(VerbError::Runner(format!("the message may not have been delivered: {error}"))),
    }
}
