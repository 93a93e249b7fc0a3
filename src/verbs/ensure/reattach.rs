//! Attaching a session again whose engine is gone: its next start, on the same runner, with its conversation.

use crate::runner_client::Observation;
use crate::session::Session;
use crate::store::Begun;
use crate::timeline::{self, Actor};
use crate::tools::Tools;
use crate::verbs::ensure::{Conversation, launch_or_close};
use crate::verbs::{VerbError, runner_of};

/// Starts the engine of an open row anew on its runner; none when somebody else began first, or the row has ended.
///
/// What must be true before: the runner of this row, ready, said on the owner's behalf that it holds no engine for it and
/// remembers no end. What is seen to here: its whole tracked set does not list one either, under whatever start or owner;
/// what it hides from the owner is an engine all the same. Of any number of callers one begins the next generation, since the store compares it with what was
/// read; and the runner starts at most one engine for it.
///
/// # Errors
/// When the engine does not start (the row is closed as `start_failed` then, and keeps the engine's own id), or the store
/// fails.
pub(in crate::verbs) async fn reattach(
    tools: &Tools,
    open: &Session,
    conversation: Conversation,
    actor: &Actor,
) -> Result<Option<Session>, VerbError> {
    if !holds_none(tools, open).await? {
        return Err(VerbError::Conflict(format!(
            "runner {} holds an engine of session {}, but not for its owner or for this start; a person has to look at it",
            open.runner_id, open.id
        )));
    }
    let entry = timeline::attached_again(open, actor, tools.clock.now());
    match tools.store.begin_and_tell(open, &open.runner_id, &entry).await? {
        Begun::Done(row) => Ok(Some(launch_or_close(tools, &row, conversation, actor).await?)),
        Begun::Taken(_) | Begun::LostRace => Ok(None),
    }
}

/// Returns whether a session's runner, asked as the sweeps ask, lists no engine for it under any start or owner.
///
/// # Errors
/// When the runner is not enrolled, cannot be asked, or the store fails.
pub(super) async fn holds_none(tools: &Tools, session: &Session) -> Result<bool, VerbError> {
    let target = runner_of(tools, &session.runner_id).await?;
    let answer = tools.runners.tracked(&target).await;
    if let Observation::Live(set) = answer {
        return Ok(set.tracked.iter().all(|engine| engine.session_id != session.id));
    }
    Err(VerbError::Runner(format!(
        "whether runner {} holds an engine of session {} cannot be told: {}",
        session.runner_id,
        session.id,
        answer.why().unwrap_or("it gave no answer")
    )))
}
