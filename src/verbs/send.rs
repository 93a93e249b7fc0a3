//! Giving a session's engine a message.

use crate::protocol::{MessageRequest, TurnOutcome};
use crate::runner_client::{NoAnswer, SessionReply, Target};
use crate::session::{ActivityKind, Id, Session};
use crate::store::Touch;
use crate::tools::Tools;
use crate::verbs::reply::taken;
use crate::verbs::{VerbError, find_open, once_ready, runner_of, tell};

/// A message for an engine.
#[derive(Debug, Clone)]
pub struct Message {
    /// What the engine is to read.
    pub text: String,
    /// What its sender calls it: a message of an id that was taken before is not written again.
    pub message_id: Option<Id>,
    /// As what it counts: a message, or a co-pilot's turn.
    pub kind: ActivityKind,
    /// Whether to wait until the turn is over.
    pub wait: bool,
}

impl Message {
    /// Makes a plain one that nobody waits for.
    #[must_use]
    pub fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), message_id: None, kind: ActivityKind::Message, wait: false }
    }
}

/// What came of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The row of the session as it stands now.
    pub session: Session,
    /// What became of the turn, where it was waited for.
    pub turn: Option<TurnOutcome>,
}

/// Gives the engine of a session a message; done only once its runner took it, or, where that is wanted, once its turn is
/// over or has gone on for as long as the runner lets anybody wait.
///
/// # Errors
/// When the message is empty, there is no such open session, its engine has ended (its row is closed then), its runner does not take the
/// message, or the store fails. The message was not delivered then, or, after a runner fell silent, may have been.
pub async fn send(tools: &Tools, id: &Id, message: &Message) -> Result<Sent, VerbError> {
    if message.text.is_empty() {
        return Err(VerbError::Invalid("the message is empty".to_owned()));
    }
    let session = find_open(tools, id).await?;
    let target = runner_of(tools, &session.runner_id).await?;
    if message.wait {
        // The answer comes with the end of the turn, and until then the session is in use all the same.
        tell(tools, &session, message.kind).await?;
        used(tools, &session, message.kind).await?;
    }
    let (answer, turn) = deliver(tools, &target, &session, message).await;
    taken(tools, &session, answer, "message").await?;
    used(tools, &session, message.kind).await?;
    let row = if message.wait { found(tools, id).await? } else { find_open(tools, id).await? };
    Ok(Sent { session: row, turn })
}

/// Asks the runner to deliver the message; with what became of its turn, where that was waited for.
async fn deliver(
    tools: &Tools,
    target: &Target,
    session: &Session,
    message: &Message,
) -> (Result<SessionReply, NoAnswer>, Option<TurnOutcome>) {
    let request = MessageRequest {
        session_id: session.id.clone(),
        generation: session.generation,
        text: message.text.clone(),
        message_id: message.message_id.clone(),
        wait: message.wait,
        owner_id: session.owner_id.clone(),
    };
    if !message.wait {
        return (once_ready(tools, target, || tools.runners.message(target, &request)).await, None);
    }
    match once_ready(tools, target, || tools.runners.converse(target, &request)).await {
        Ok((reply, turn)) => (Ok(reply), Some(turn.unwrap_or(TurnOutcome::Untold))),
        Err(error) => (Err(error), None),
    }
}

/// Writes down that a session was used now, for whatever its runner has heard of already.
pub(super) async fn used(tools: &Tools, session: &Session, kind: ActivityKind) -> Result<(), VerbError> {
    let touch = Touch { id: session.id.clone(), at: tools.clock.now(), kind };
    tools.store.write_touches(&[touch]).await?;
    Ok(())
}

/// Finds a session whose engine may have ended with the turn.
async fn found(tools: &Tools, id: &Id) -> Result<Session, VerbError> {
    tools.store.find_session(id).await?.ok_or_else(|| VerbError::NotFound(id.clone()))
}
