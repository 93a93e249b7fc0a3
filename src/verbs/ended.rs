//! Closing the row of an engine of which the runner said, in answer to a verb, that it has ended.

use crate::protocol::{EndOutcome, Ended, ForgetRequest};
use crate::runner_client::{Observation, Target};
use crate::session::Session;
use crate::store::{Close, Closed, Guard};
use crate::time::UtcMs;
use crate::timeline::{self, Actor, Grounds};
use crate::tools::Tools;
use crate::verbs::VerbError;

/// Closes the row with the runner's own record of the end, if the runner lists one for this session and generation;
/// leaves it to the next pass otherwise.
///
/// # Errors
/// When the store fails.
pub async fn close_if_ended(tools: &Tools, session: &Session) -> Result<(), VerbError> {
    let Some(runner) = tools.store.find_runner(&session.runner_id).await? else { return Ok(()) };
    let target = Target::from(&runner);
    let Observation::Live(set) = tools.runners.tracked(&target).await else { return Ok(()) };
    let fits = |ended: &&Ended| ended.session_id == session.id && ended.generation == session.generation;
    if let Some(ended) = set.ended.iter().find(fits) {
        let actor = Actor { name: "runner".to_owned(), worker_id: tools.worker_id.clone(), sweep_id: None };
        close_gone(tools, &target, (session, EndOutcome::AlreadyStopped), ended, &actor).await?;
    }
    Ok(())
}

/// Closes a row on the runner's word that its engine is gone, then lets the runner forget. A row that was closed or moved
/// on meanwhile gets an entry that its engine is gone, unless it has one.
///
/// What must be true before: the runner said so, with a record, for this session and generation.
pub(super) async fn close_gone(
    tools: &Tools,
    target: &Target,
    (session, outcome): (&Session, EndOutcome),
    ended: &Ended,
    actor: &Actor,
) -> Result<(), VerbError> {
    let now: UtcMs = tools.clock.now();
    let grounds = Grounds::of(session);
    let entry = timeline::engine_gone(grounds, outcome, ended, actor, now);
    let close = Close { session, at: now, reason: &ended.reason, guard: Guard::EngineGone, entry: &entry, item: None };
    tools.store.note_last_engine_id(&session.runner_id, ended).await?;
    let may_forget = match tools.store.close_session(&close).await? {
        Closed::Done => true,
        Closed::LostRace => {
            let entry = timeline::stray_stopped(grounds, &session.runner_id, ended, actor, now);
            tools.store.record_stopped(&session.id, ended.generation, &entry, None).await?.may_forget()
        }
    };
    if may_forget {
        let request = ForgetRequest { session_id: session.id.clone(), generation: ended.generation };
        if let Err(error) = tools.runners.forget(target, &request).await {
            tracing::debug!(session_id = %session.id, %error, "the runner was not told to forget");
        }
    }
    Ok(())
}
