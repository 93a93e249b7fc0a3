//! What is said to an engine: messages, interruptions, and the wish for a fresh conversation.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;
use tokio::sync::watch;

use crate::protocol::{FailureOutcome, MessageRequest, SessionAnswer, SessionRequest, TurnOutcome};
use crate::runner::Runner;
use crate::runner::engine::{Engine, Errand};
use crate::runner::refusal::Refusal;
use crate::runner::shim::wire::Taken;
use crate::session::Id;

/// How long an engine may take to read a message before its sender is told that it has not.
///
/// Less than a client waits for an answer, so that it hears so.
const TAKEN_WITHIN: Duration = Duration::from_secs(8);
/// How long a broken pipe may take to be explained by the engine's end.
const EXPLAINED_WITHIN: Duration = Duration::from_secs(1);

impl Runner {
    /// Gives the engine a message, and returns once its input took it, or, if that is wanted, once its turn is over.
    pub(crate) async fn message(&self, request: MessageRequest) -> Result<SessionAnswer, Refusal> {
        let (id, generation) = (request.session_id.clone(), request.generation);
        let (session, asked) = self.using((&id, generation, request.owner_id.as_deref()), |facts, now| {
            facts.messages_on_their_way += 1;
            facts.doings.message(now)
        })?;
        let turns = session.turns();
        let wait = request.wait;
        let taken = self.deliver(&session, request).await;
        let again = matches!(taken, Ok(Taken::Again));
        {
            let mut facts = session.facts();
            facts.messages_on_their_way -= 1;
            if taken.is_err() {
                facts.doings.not_taken(asked);
            }
        }
        taken?;
        // The turn of a message that was taken before may be over by now, and no other end is to be waited for then.
        let over = again && !session.facts().doings.in_turn();
        let turn = match (wait, over) {
            (false, _) => None,
            (true, true) => Some(TurnOutcome::Over),
            (true, false) => Some(self.await_turn(&session, turns).await),
        };
        Ok(SessionAnswer { turn, ..self.plain_answer(&id, generation) })
    }

    async fn deliver(&self, session: &Engine, request: MessageRequest) -> Result<Taken, Refusal> {
        let (id, generation) = (&request.session_id, request.generation);
        let in_time = tokio::time::timeout(TAKEN_WITHIN, async {
            session.can_be_told().await;
            let trouble = session.facts().adapter.trouble();
            if let Some(why) = trouble {
                return Err(Refusal::busy(id, generation, format!("the engine never becomes ready: {why}")));
            }
            let (told, taken) = oneshot::channel();
            let errand = Errand::Message { text: request.text, id: request.message_id, told };
            hand(session, errand, (id, generation))?;
            Ok(taken.await)
        });
        match in_time.await {
            Ok(Ok(Ok(result))) => understood(session, result, (id, generation)).await.map(|()| result),
            Ok(Ok(Err(_))) => Err(broken(session, id, generation).await),
            Ok(Err(refusal)) => Err(refusal),
            Err(_) => {
                let message = "the engine does not read its input; the message waits there, and may be read later";
                Err(Refusal::busy(id, generation, message))
            }
        }
    }

    /// Waits until the turn that a message began is over, at most as long as a caller may wait. The turn goes on.
    async fn await_turn(&self, session: &Arc<Engine>, mut turns: watch::Receiver<u64>) -> TurnOutcome {
        if !session.facts().doings.may_tell_turn() {
            return TurnOutcome::Untold;
        }
        let most = Duration::from_millis(u64::try_from(self.settings().send_timeout).unwrap_or(0));
        let over = async {
            tokio::select! {
                _ = turns.changed() => {}
                () = session.ends() => {}
            }
        };
        match tokio::time::timeout(most, over).await {
            Ok(()) => TurnOutcome::Over,
            Err(_) if session.facts().doings.in_turn() => TurnOutcome::Running,
            Err(_) => TurnOutcome::Untold,
        }
    }

    /// Interrupts the running turn; the session goes on. Where no turn runs, nothing happens.
    pub(crate) async fn interrupt(&self, request: SessionRequest) -> Result<SessionAnswer, Refusal> {
        let named = (&request.session_id, request.generation);
        let (session, ()) =
            self.using((named.0, named.1, request.owner_id.as_deref()), |facts, now| facts.doings.touch(now))?;
        let (told, taken) = oneshot::channel();
        hand(&session, Errand::Interrupt { told }, named)?;
        match tokio::time::timeout(TAKEN_WITHIN, taken).await {
            Ok(Ok(result)) => understood(&session, result, named).await?,
            Ok(Err(_)) => return Err(broken(&session, named.0, named.1).await),
            Err(_) => return Err(Refusal::busy(named.0, named.1, "the engine does not read its input")),
        }
        Ok(self.plain_answer(named.0, named.1))
    }

    /// Begins a fresh conversation in the same engine, where that is possible.
    pub(crate) async fn clear(&self, request: SessionRequest) -> Result<SessionAnswer, Refusal> {
        let named = (&request.session_id, request.generation);
        let (session, ()) =
            self.using((named.0, named.1, request.owner_id.as_deref()), |facts, now| facts.doings.touch(now))?;
        let (told, taken) = oneshot::channel();
        hand(&session, Errand::Clear { told }, named)?;
        match tokio::time::timeout(TAKEN_WITHIN, taken).await {
            Ok(Ok(Some(result))) => understood(&session, result, named).await?,
            Ok(Ok(None)) => {
                let message = format!("the engine {:?} cannot begin a fresh conversation", session.engine_name);
                return Err(
                    Refusal::new(StatusCode::CONFLICT, FailureOutcome::Unsupported, message).about(named.0, named.1)
                );
            }
            Ok(Err(_)) => return Err(broken(&session, named.0, named.1).await),
            Err(_) => return Err(Refusal::busy(named.0, named.1, "the engine does not read its input")),
        }
        Ok(self.plain_answer(named.0, named.1))
    }
}

fn hand(session: &Engine, errand: Errand, (id, generation): (&Id, i64)) -> Result<(), Refusal> {
    match session.errands.try_send(errand) {
        Err(TrySendError::Full(_)) => {
            Err(Refusal::busy(id, generation, "too many messages wait for the engine; none was added"))
        }
        // Nobody takes it any more: its end explains that.
        Ok(()) | Err(TrySendError::Closed(_)) => Ok(()),
    }
}

async fn understood(session: &Engine, result: Taken, (id, generation): (&Id, i64)) -> Result<(), Refusal> {
    match result {
        Taken::Written | Taken::Again => Ok(()),
        Taken::Full => {
            let message = "the engine does not read its input, and too much waits for it; nothing was added";
            Err(Refusal::busy(id, generation, message))
        }
        Taken::Broken | Taken::Closed => Err(broken(session, id, generation).await),
    }
}

/// Explains a pipe that took nothing: nearly always by the end of the engine, which is about to be known.
async fn broken(session: &Engine, id: &Id, generation: i64) -> Refusal {
    let _ = tokio::time::timeout(EXPLAINED_WITHIN, session.ends()).await;
    match &session.facts().ending {
        Some(ending) => Refusal::ended(id, generation, &ending.reason),
        None => Refusal::internal("the engine has closed its input, so no message reaches it").about(id, generation),
    }
}
