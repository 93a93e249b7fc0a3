//! Giving a session's engine a message.

use crate::protocol::{MessageRequest, TurnOutcome};
use crate::runner_client::{NoAnswer, SessionReply, Target};
use crate::session::{ActivityKind, Id, Session};
use crate::store::Touch;
use crate::tools::Tools;
use crate::verbs::reply::taken;
use crate::verbs::{VerbError, find_open, once_ready, runner_of, tell};

/// A message for an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What the engine is to read.
    pub text: String,
    /// What its sender calls it: the runner writes a message of an id that it took before no second time.
    pub message_id: Id,
    /// As what it counts: a message, or a co-pilot's turn.
    pub kind: ActivityKind,
    /// Whether to wait until the turn is over.
    pub wait: bool,
}

impl Message {
    /// Makes a message with an id of its own that nobody waits for.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), message_id: Id::new(), kind: ActivityKind::Message, wait: false }
    }

    /// Refuses a message that says nothing.
    pub(super) fn check(&self) -> Result<(), VerbError> {
        if self.text.is_empty() {
            return Err(VerbError::Invalid("the message is empty".to_owned()));
        }
        Ok(())
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

/// What came of a message that a runner did not take, and did not refuse either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The engine has ended, or the runner holds none for the session: it was not delivered.
    Gone(SessionReply),
    /// Nobody knows whether it was delivered, and why.
    Unsure(NoAnswer),
}

impl NotTaken {
    /// Returns what is said about it; the row of an engine that has ended is closed.
    pub(super) async fn tell(self, tools: &Tools, session: &Session) -> VerbError {
        let answer = match self {
            Self::Gone(reply) => Ok(reply),
            Self::Unsure(error) => Err(error),
        };
        let error = taken(tools, session, answer, "message").await.err();
        error.unwrap_or_else(|| VerbError::Runner(format!("session {} did not get the message", session.id)))
    }
}

/// What became of the turn of a message that was taken, where that was waited for.
type Turn = Option<TurnOutcome>;

/// Gives the engine of a session a message; done only once its runner took it, or, where that is wanted, once its turn is
/// over or has gone on for as long as the runner lets anybody wait.
///
/// # Errors
/// When the message is empty, there is no such open session, its engine has ended (its row is closed then), its runner does not take the
/// message, or the store fails. The message was not delivered then, or, after a runner fell silent, may have been.
pub async fn send(tools: &Tools, id: &Id, message: &Message) -> Result<Sent, VerbError> {
    message.check()?;
    let session = find_open(tools, id).await?;
    match deliver(tools, &session, message).await? {
        Ok(turn) => sent(tools, &session, turn).await,
        Err(not_taken) => Err(not_taken.tell(tools, &session).await),
    }
}

/// Gives a message to the runner of a session, and writes the use once it took it.
///
/// # Errors
/// When the runner is not enrolled, or refuses the message (it was not delivered), or the store fails.
pub(super) async fn deliver(
    tools: &Tools,
    session: &Session,
    message: &Message,
) -> Result<Result<Turn, NotTaken>, VerbError> {
    let target = runner_of(tools, &session.runner_id).await?;
    if message.wait {
        // The answer comes with the end of the turn, and until then the session is in use all the same.
        tell(tools, session, message.kind).await?;
        used(tools, session, message.kind).await?;
    }
    let (answer, turn) = ask(tools, &target, session, message).await;
    match answer {
        Ok(reply @ (SessionReply::Ended { .. } | SessionReply::NotTracked)) => Ok(Err(NotTaken::Gone(reply))),
        Err(
            error @ (NoAnswer::Unanswered(_)
            | NoAnswer::Unauthorised(_)
            | NoAnswer::Unknown(_)
            | NoAnswer::Unrecognised(_)),
        ) => Ok(Err(NotTaken::Unsure(error))),
        answer => {
            taken(tools, session, answer, "message").await?;
            // The runner has it, and its own clock too: that the row does not yet is no reason to say otherwise.
            if let Err(error) = used(tools, session, message.kind).await {
                tracing::warn!(session_id = %session.id, %error, "a message was taken, and its use is not in the store");
            }
            Ok(Ok(turn))
        }
    }
}

/// Asks the runner to deliver the message; with what became of its turn, where that was waited for.
async fn ask(
    tools: &Tools,
    target: &Target,
    session: &Session,
    message: &Message,
) -> (Result<SessionReply, NoAnswer>, Turn) {
    let request = MessageRequest {
        session_id: session.id.clone(),
        generation: session.generation,
        text: message.text.clone(),
        message_id: Some(message.message_id.clone()),
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

/// Returns the session as it stands after a message that was taken; its engine may have ended since.
pub(super) async fn sent(tools: &Tools, session: &Session, turn: Turn) -> Result<Sent, VerbError> {
    // It was taken, whatever has become of its engine since.
    let row = tools.store.find_session(&session.id).await?.unwrap_or_else(|| session.clone());
    Ok(Sent { session: row, turn })
}

/// Writes down that a session was used now, for whatever its runner has heard of already.
pub(super) async fn used(tools: &Tools, session: &Session, kind: ActivityKind) -> Result<(), VerbError> {
    let touch = Touch { id: session.id.clone(), at: tools.clock.now(), kind };
    tools.store.write_touches(&[touch]).await?;
    Ok(())
}
