//! Ending a session because a person wants it: stop the engine, then close the row.

use crate::protocol::{EndMode, EndOutcome, EndRequest};
use crate::runner_client::{StopAnswer, StopCall};
use crate::session::{Id, Session};
use crate::store::{Close, Guard};
use crate::timeline::{self, Actor, Grounds};
use crate::tools::Tools;
use crate::verbs::ended::close_gone;
use crate::verbs::{VerbError, find_open, heard_runner_of};
use crate::verdict::Verdict;

/// Ends a session on a person's explicit wish, without a condition, and returns its row as it stands then.
///
/// The row is closed only when the runner says that the engine is gone, or that it holds none. The latter closes it as
/// `orphaned`: this is the control plane's own call (it names no owner), so `not_tracked` is no veil over somebody else's
/// engine but means that a ready runner of this row has none; and only if the row is as it was when that was asked.
///
/// # Errors
/// When there is no such open session, its runner does not stop the engine, the row was used or moved on meanwhile and is
/// open still, or the store fails; the session stays then.
pub async fn end(tools: &Tools, id: &Id, actor: &Actor) -> Result<Session, VerbError> {
    let session = find_open(tools, id).await?;
    let (target, set) = heard_runner_of(tools, &session.runner_id).await?;
    // A plain runner's bare 404 means that it holds no engine only if it does not list one either.
    let set_recognised = set.is_some_and(|set| set.tracked.iter().all(|engine| engine.session_id != session.id));
    let request = EndRequest {
        session_id: session.id.clone(),
        generation: session.generation,
        mode: EndMode::Force,
        limits: None,
        stamp: None,
        reason: Verdict::EndedByPerson.to_string(),
        sweep_id: None,
        owner_id: None,
    };
    let runner = &session.runner_id;
    match tools.runners.end(&target, &StopCall { request, set_recognised }).await {
        StopAnswer::Stopped(ended) => {
            close_gone(tools, &target, (&session, EndOutcome::Stopped), &ended, actor).await?;
        }
        StopAnswer::AlreadyStopped(ended) => {
            close_gone(tools, &target, (&session, EndOutcome::AlreadyStopped), &ended, actor).await?;
        }
        StopAnswer::NotTracked => close_untracked(tools, &session, actor).await?,
        StopAnswer::Refused { .. } => return Err(VerbError::generation(&session)),
        StopAnswer::Accepted => {
            return Err(VerbError::Runner(format!(
                "runner {runner} has begun to stop the engine of session {id} and has not finished; the next pass closes it"
            )));
        }
        StopAnswer::Failed(why) | StopAnswer::NoAnswer(why) => {
            return Err(VerbError::Runner(format!(
                "session {id} stays open: runner {runner} did not stop its engine: {why}"
            )));
        }
    }
    // Read again: somebody else may have closed the row first, or have used or started it anew, which keeps it open.
    let row = tools.store.find_session(id).await?.ok_or_else(|| VerbError::NotFound(id.clone()))?;
    if row.is_open() {
        return Err(VerbError::Conflict(format!(
            "session {id} stays open: it was used or started anew while it was being ended; end it again if that is still meant"
        )));
    }
    Ok(row)
}

/// Closes the row of a session that its runner, which knows all its engines, holds none for; unless the row was used or
/// changed since it was read.
async fn close_untracked(tools: &Tools, session: &Session, actor: &Actor) -> Result<(), VerbError> {
    let (now, verdict) = (tools.clock.now(), Verdict::Orphaned);
    let entry = timeline::closed_without_stop(Grounds::of(session), verdict, "", actor, now);
    let close =
        Close { session, at: now, reason: verdict.as_str(), guard: Guard::Unchanged, entry: &entry, item: None };
    tools.store.close_session(&close).await?;
    Ok(())
}
