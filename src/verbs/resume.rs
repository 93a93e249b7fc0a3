//! Taking up a session that has ended: its engine is started again with its context, and a message goes to it once.

use crate::activity::{Heard, tell_runner};
use crate::protocol::{TrackedSession, TurnOutcome};
use crate::runner_client::{NoAnswer, Observation, SessionReply, Target};
use crate::session::{ActivityKind, Id, Session, Status};
use crate::store::{Begun, Reopened};
use crate::timeline::{self, Actor};
use crate::tools::Tools;
use crate::verbs::ending::ending;
use crate::verbs::ensure::{Conversation, Settled, closed, has_moved_on, launch_or_close, reattach, settled};
use crate::verbs::send::{Message, NotTaken, Sent, deliver, sent};
use crate::verbs::{VerbError, close_if_ended, runner_of};

/// How often what is there is looked at again, after somebody else changed it first.
const LOOKS: u32 = 16;

/// How often a message is given to a runner that did not say whether it took it.
const ATTEMPTS: u32 = 3;

/// Makes sure that the engine of a session runs; an ended session is started again on its runner.
///
/// It is its next generation, with its conversation and the arguments it had. Of any number of callers one starts it; the
/// others wait for it.
///
/// What must be true before the row is opened: its runner answers and is ready, the engine's own id of the conversation is
/// known, and the owner has no other open session in that repo (the store decides that in the same transaction). The runner
/// is told that only this conversation will do, and where it refuses that, the row is closed again as `start_failed`. A row
/// whose engine turns out to be there still is opened again instead.
///
/// # Errors
/// When there is no such session, it has no conversation that could be taken up, the owner's place in that repo is taken,
/// its runner cannot be asked (nothing was begun), the engine does not start, or the store fails.
pub async fn resume(tools: &Tools, id: &Id, actor: &Actor) -> Result<Session, VerbError> {
    for _ in 0..LOOKS {
        let row = tools.store.find_session(id).await?.ok_or_else(|| VerbError::NotFound(id.clone()))?;
        let looked = match row.status {
            Status::Starting => match settled(tools, &row).await? {
                Settled::Active(session) => Some(*session),
                Settled::Changed => None,
            },
            Status::Active => attach(tools, &row, actor).await?,
            Status::Ended => start_again(tools, &row, actor).await?,
        };
        if let Some(session) = looked {
            return Ok(session);
        }
    }
    Err(changes(id))
}

/// Gives a session's engine a message; a session that has ended is resumed first.
///
/// Delivered exactly once: a runner that did not say whether it took the message is given it again under the same id, which
/// it writes once.
///
/// # Errors
/// As [`resume`], and as [`send()`](crate::verbs::send()). Where the message may have been delivered, the error says so.
pub async fn send_resuming(tools: &Tools, id: &Id, message: &Message, actor: &Actor) -> Result<Sent, VerbError> {
    message.check()?;
    for _ in 0..LOOKS {
        let session = resume(tools, id, actor).await?;
        match deliver_once(tools, &session, message).await? {
            Ok(turn) => return sent(tools, &session, turn).await,
            // It ended, or was lost, between the two steps: nothing was delivered, and it is taken up again.
            Err(NotTaken::Gone(SessionReply::Ended { .. })) => close_if_ended(tools, &session).await?,
            Err(NotTaken::Gone(_)) => {}
            Err(unsure @ NotTaken::Unsure(_)) => return Err(unsure.tell(tools, &session).await),
        }
    }
    Err(changes(id))
}

/// How a session ended, for whoever wrote to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Farewell {
    /// Why and when, in part of a sentence.
    pub how: String,
    /// What its timeline says of that, where it says anything.
    pub story: Option<String>,
    /// Whether [`resume`] may take it up again.
    pub may_resume: bool,
}

/// Says how a session ended, and whether it can be resumed.
///
/// # Errors
/// When there is no such session, or the store fails.
pub async fn farewell(tools: &Tools, id: &Id) -> Result<Farewell, VerbError> {
    let row = tools.store.find_session(id).await?.ok_or_else(|| VerbError::NotFound(id.clone()))?;
    let reason = row.end_reason.as_deref().unwrap_or("for an unknown reason");
    let when = row.ended_at.map(|at| format!(" at {at}")).unwrap_or_default();
    let told = ending(tools, &row).await?;
    Ok(Farewell {
        how: format!("the session has ended ({reason}){when}"),
        story: told.map(|entry| entry.message),
        may_resume: may_resume(&row),
    })
}

fn may_resume(session: &Session) -> bool {
    session.engine_session_id.is_some()
}

fn changes(id: &Id) -> VerbError {
    VerbError::Conflict(format!("session {id} keeps changing; ask again"))
}

/// Looks whether the engine of an open row is there; starts it anew where it is gone. None when the row is to be read again.
async fn attach(tools: &Tools, open: &Session, actor: &Actor) -> Result<Option<Session>, VerbError> {
    match tell_runner(tools, open, ActivityKind::Start).await? {
        Heard::Yes | Heard::Unreached => Ok(Some(open.clone())),
        Heard::Generation if has_moved_on(tools, open).await? => Ok(None),
        // Nobody writes to an engine of another start: who tries is told so.
        Heard::Generation => Ok(Some(open.clone())),
        Heard::NotTracked if may_resume(open) => reattach(tools, open, Conversation::Needed, actor).await,
        Heard::NotTracked => Err(no_conversation(open)),
        Heard::Ended(reason) => {
            closed(tools, open, reason).await?;
            Ok(None)
        }
    }
}

/// Starts the engine of an ended row; none when somebody else changed the row first.
async fn start_again(tools: &Tools, ended: &Session, actor: &Actor) -> Result<Option<Session>, VerbError> {
    if let Some(open) = tools.store.find_open_session(ended.owner_id.as_deref(), &ended.repo).await? {
        return Err(taken(ended, &open));
    }
    let target = runner_of(tools, &ended.runner_id).await?;
    if is_there(tools, &target, ended).await? {
        return reopen(tools, ended, actor).await;
    }
    if !may_resume(ended) {
        return Err(no_conversation(ended));
    }
    let entry = timeline::resumed(ended, actor, tools.clock.now());
    match tools.store.begin_and_tell(ended, &ended.runner_id, &entry).await? {
        Begun::Done(row) => Ok(Some(launch_or_close(tools, &row, Conversation::Needed, actor).await?)),
        Begun::Taken(open) => Err(taken(ended, &open)),
        Begun::LostRace => Ok(None),
    }
}

/// Asks a runner whether it still holds the engine of an ended row, which must not get a second one beside it.
async fn is_there(tools: &Tools, target: &Target, ended: &Session) -> Result<bool, VerbError> {
    let answer = tools.runners.tracked(target).await;
    let Observation::Live(set) = answer else {
        return Err(VerbError::Runner(format!(
            "session {} cannot be resumed now, since its runner {} cannot be asked: {}",
            ended.id,
            target.id,
            answer.why().unwrap_or("it gave no answer")
        )));
    };
    let same = |engine: &TrackedSession| {
        engine.session_id == ended.id && engine.generation.is_none_or(|own| own == ended.generation)
    };
    Ok(set.tracked.iter().any(same) && !tools.store.has_stopped(&ended.id, ended.generation).await?)
}

/// Opens a row again whose engine is still there; none when it has to be read again.
async fn reopen(tools: &Tools, ended: &Session, actor: &Actor) -> Result<Option<Session>, VerbError> {
    let now = tools.clock.now();
    let entry = timeline::returned(ended, actor, now);
    match tools.store.reopen_session(ended, now, &entry, None).await? {
        Reopened::Done | Reopened::LostRace | Reopened::AlreadyStopped => Ok(None),
        Reopened::Taken => Err(VerbError::Conflict(format!(
            "session {} cannot be resumed: its owner has another session open in {}",
            ended.id, ended.repo
        ))),
    }
}

/// Gives the engine a message, and again under the same id as long as its runner does not say what came of it.
async fn deliver_once(
    tools: &Tools,
    session: &Session,
    message: &Message,
) -> Result<Result<Option<TurnOutcome>, NotTaken>, VerbError> {
    let mut unsure: Option<NoAnswer> = None;
    for _ in 0..ATTEMPTS {
        let given = match (deliver(tools, session, message).await, &unsure) {
            // What is refused now may have been taken before.
            (Err(error), Some(_)) if !matches!(error, VerbError::Store(_)) => Err(NotTaken::Unsure(
                NoAnswer::Unanswered(format!("an attempt got no answer, and the next one: {error}")),
            )),
            (given, _) => given?,
        };
        match (given, unsure.take()) {
            (Ok(turn), _) => return Ok(Ok(turn)),
            (Err(NotTaken::Unsure(why)), _) if may_repeat(tools, session).await? => unsure = Some(why),
            // The engine that is gone by now may have taken it: it must not be given to the next one too.
            (Err(NotTaken::Gone(_)), Some(why)) => return Ok(Err(NotTaken::Unsure(why))),
            (Err(not_taken), _) => return Ok(Err(not_taken)),
        }
    }
    let why = unsure.unwrap_or_else(|| NoAnswer::Unanswered("the runner gave no answer".to_owned()));
    Ok(Err(NotTaken::Unsure(why)))
}

/// Returns whether the runner knows messages by their ids, so that one given twice is written once.
async fn may_repeat(tools: &Tools, session: &Session) -> Result<bool, VerbError> {
    let runner = tools.store.find_runner(&session.runner_id).await?;
    Ok(runner.is_some_and(|runner| runner.protocol.is_some()))
}

fn taken(ended: &Session, open: &Session) -> VerbError {
    VerbError::Conflict(format!(
        "session {} cannot be resumed: its owner has session {} open in {}; end that first, or write to it",
        ended.id, open.id, ended.repo
    ))
}

fn no_conversation(session: &Session) -> VerbError {
    VerbError::Conflict(format!(
        "session {} cannot be resumed: {} told no id of its conversation, so it would begin a fresh one; open a new session in {}",
        session.id, session.engine, session.repo
    ))
}
