//! Giving a session's engine a message.

use crate::protocol::MessageRequest;
use crate::runner_client::{NoAnswer, SessionReply};
use crate::session::{ActivityKind, Id, Session};
use crate::store::Touch;
use crate::tools::Tools;
use crate::verbs::{VerbError, close_if_ended, find_open, once_ready, runner_of};

/// A message to an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What the engine is to read.
    pub text: String,
    /// What its sender calls it: the runner writes a message of an id that it took before no second time.
    pub message_id: Id,
    /// As what it counts: a message, or a co-pilot's turn.
    pub kind: ActivityKind,
}

impl Message {
    /// Makes a message with an id of its own.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), message_id: Id::new(), kind: ActivityKind::Message }
    }

    /// Refuses a message that says nothing.
    pub(super) fn check(&self) -> Result<(), VerbError> {
        if self.text.is_empty() {
            return Err(VerbError::Invalid("the message is empty".to_owned()));
        }
        Ok(())
    }
}

/// What came of giving a message to a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The runner took it.
    Taken,
    /// The engine has ended, and why; it was not delivered.
    Ended(String),
    /// The runner holds no engine for the session; it was not delivered.
    NotHeld,
    /// Nobody knows whether it was delivered, and why.
    Unsure(String),
}

/// Gives the engine of a session a message; done only once its runner took it.
///
/// # Errors
/// When the message is empty, there is no such open session, its engine has ended (its row is closed then), its runner does not take the
/// message, or the store fails. The message was not delivered then, or, after a runner fell silent, may have been.
pub async fn send(tools: &Tools, id: &Id, text: &str) -> Result<Session, VerbError> {
    send_message(tools, id, &Message::new(text)).await
}

/// As [`send`], with a message whose id its sender chose.
///
/// # Errors
/// As [`send`].
pub async fn send_message(tools: &Tools, id: &Id, message: &Message) -> Result<Session, VerbError> {
    message.check()?;
    let session = find_open(tools, id).await?;
    match deliver(tools, &session, message).await? {
        Delivery::Taken => find_open(tools, id).await,
        not_taken @ (Delivery::Ended(_) | Delivery::NotHeld | Delivery::Unsure(_)) => {
            if matches!(not_taken, Delivery::Ended(_)) {
                close_if_ended(tools, &session).await?;
            }
            Err(refused_as(&session, not_taken))
        }
    }
}

/// Gives a message to the runner of a session, and writes the use once it took it.
///
/// # Errors
/// When the runner is not enrolled, or refuses the message (it was not delivered), or the store fails.
pub(super) async fn deliver(tools: &Tools, session: &Session, message: &Message) -> Result<Delivery, VerbError> {
    let (id, runner) = (&session.id, &session.runner_id);
    let target = runner_of(tools, runner).await?;
    let request = MessageRequest {
        session_id: id.clone(),
        generation: session.generation,
        text: message.text.clone(),
        message_id: Some(message.message_id.clone()),
        wait: false,
        owner_id: session.owner_id.clone(),
    };
    match once_ready(tools, &target, || tools.runners.message(&target, &request)).await {
        Ok(SessionReply::Done(_)) => {
            let touch = Touch { id: id.clone(), at: tools.clock.now(), kind: message.kind };
            tools.store.write_touches(&[touch]).await?;
            Ok(Delivery::Taken)
        }
        Ok(SessionReply::Ended { reason }) => Ok(Delivery::Ended(reason)),
        Ok(SessionReply::NotTracked) => Ok(Delivery::NotHeld),
        Ok(SessionReply::Generation { .. }) => {
            Err(VerbError::Conflict(format!("runner {runner} holds another start of session {id}")))
        }
        Ok(SessionReply::Refused { message, .. }) => Err(VerbError::Runner(format!("runner {runner}: {message}"))),
        Ok(SessionReply::Unsupported) => Err(VerbError::Runner(format!("runner {runner} takes no messages"))),
        Err(error @ NoAnswer::Unconnected(_)) => {
            Err(VerbError::Runner(format!("the message was not delivered: {error}")))
        }
        Err(error) => Ok(Delivery::Unsure(error.to_string())),
    }
}

/// Returns what is said about a message that was not taken.
pub(super) fn refused_as(session: &Session, delivery: Delivery) -> VerbError {
    let (id, runner) = (&session.id, &session.runner_id);
    match delivery {
        Delivery::Ended(reason) => VerbError::Ended { id: id.clone(), reason },
        Delivery::Taken | Delivery::NotHeld => VerbError::Runner(format!(
            "runner {runner} holds no engine for session {id}; the message was not delivered"
        )),
        Delivery::Unsure(why) => VerbError::Runner(format!("the message may not have been delivered: {why}")),
    }
}
