//! Moving an open session to another runner: freed there, started here as the next generation.
//!
//! The order is the crash rule. The old runner stops the engine and keeps its record; then row and entry are committed
//! together; then the end of the old engine is told, and only then is the old runner told to forget. Killed after the
//! stop, the next pass closes the row with the reason `relocated`, and it can be resumed; killed after the row moved, a
//! pass tells of the old engine's end and settles the start.

use crate::entry::NewEntry;
use crate::protocol::{Ended, ForgetRequest};
use crate::session::{Id, Session};
use crate::store::Begun;
use crate::timeline::{self, Actor, Freed, RELOCATED};
use crate::tools::Tools;
use crate::verbs::ensure::free::free;
use crate::verbs::ensure::launch::{Conversation, Launch, forget_start, give_up, launch, not_started};
use crate::verbs::{VerbError, once_ready, runner_of};

/// Moves an open session to the runner `to`; none when it has to be looked at again, since its engine had ended or
/// somebody else moved it first.
///
/// What must be true before anything is stopped: the new runner answers, is ready and has the engine. What must be true
/// for the stop is said at [`free`]. An engine that does not start on the new runner is started again on the old one,
/// where that has let it go; the row never loses the engine's own id.
///
/// # Errors
/// When the new runner cannot take it, the old one does not let it go, or the engine does not start.
pub(super) async fn relocate(
    tools: &Tools,
    (open, to): (&Session, &Id),
    force: bool,
    actor: &Actor,
) -> Result<Option<Session>, VerbError> {
    can_take(tools, (to, &open.engine)).await?;
    let Some(freed) = free(tools, open, force).await? else { return Ok(None) };
    // Freeing it may have noted the id of its conversation.
    let read = tools.store.find_session(&open.id).await?;
    let open = read.as_ref().filter(|row| row.generation == open.generation && row.is_open()).unwrap_or(open);
    let entry = timeline::relocated((open, to), &freed, actor, tools.clock.now());
    let Some(row) = begin(tools, open, (to, &entry)).await? else { return Ok(None) };
    if let Freed::Stopped(ended) = &freed {
        tell_stop(tools, (open, to), ended, actor).await?;
    }
    match launch(tools, &row, Conversation::Wished).await? {
        Launch::Running(session) => Ok(Some(*session)),
        Launch::Failed(row, why) if matches!(freed, Freed::LeftAlone(_)) => {
            Err(give_up(tools, &row, &why, actor).await?)
        }
        Launch::Failed(row, why) => Err(back(tools, (&row, &open.runner_id), &why, actor).await?),
    }
}

/// Makes sure that the new runner could start the engine.
async fn can_take(tools: &Tools, (runner, engine): (&Id, &String)) -> Result<(), VerbError> {
    let target = runner_of(tools, runner).await?;
    let health = once_ready(tools, &target, || tools.runners.health(&target)).await;
    let refused = |why: String| Err(VerbError::Runner(format!("nothing was moved: {why}")));
    match health {
        Err(why) => refused(format!("runner {runner} cannot be asked for engine {engine}: {why}")),
        Ok(health) if !health.origin.ready => refused(format!("runner {runner} is not ready")),
        Ok(health) if !health.engines.contains(engine) => {
            refused(format!("runner {runner} has no engine {engine}; it has {}", health.engines.join(", ")))
        }
        Ok(_) => Ok(()),
    }
}

/// Moves the row, as its next generation; none when somebody else changed it first.
///
/// A pass may have read the record of the stop and closed the row for it in between: that is this very move.
async fn begin(tools: &Tools, open: &Session, (to, entry): (&Id, &NewEntry)) -> Result<Option<Session>, VerbError> {
    if let Begun::Done(row) = tools.store.begin_and_tell(open, to, entry).await? {
        return Ok(Some(*row));
    }
    let row = tools.store.find_session(&open.id).await?;
    let closed_for_it = |row: &Session| {
        row.generation == open.generation && !row.is_open() && row.end_reason.as_deref() == Some(RELOCATED)
    };
    let Some(closed) = row.filter(closed_for_it) else { return Ok(None) };
    match tools.store.begin_and_tell(&closed, to, entry).await? {
        Begun::Done(row) => Ok(Some(*row)),
        Begun::Taken(_) | Begun::LostRace => Ok(None),
    }
}

/// Tells of the old engine's end, once, and lets its runner forget.
async fn tell_stop(tools: &Tools, (open, to): (&Session, &Id), ended: &Ended, actor: &Actor) -> Result<(), VerbError> {
    let entry = timeline::stopped_to_move((open, to), ended, actor, tools.clock.now());
    let recorded = tools.store.record_stopped(&open.id, ended.generation, &entry, None).await?;
    if recorded.may_forget() {
        let request = ForgetRequest { session_id: open.id.clone(), generation: ended.generation };
        let _told = tools.runners.forget(&runner_of(tools, &open.runner_id).await?, &request).await;
    }
    Ok(())
}

/// Starts the engine again where it was, since it certainly did not start on `row`'s runner; returns the error that says
/// so.
///
/// What must be true before: the old runner holds no engine of this session, by its own word.
async fn back(tools: &Tools, (row, home): (&Session, &Id), why: &str, actor: &Actor) -> Result<VerbError, VerbError> {
    let failed = not_started(row, why);
    let entry = timeline::moved_back((row, home), why, actor, tools.clock.now());
    let Begun::Done(again) = tools.store.begin_and_tell(row, home, &entry).await? else { return Ok(failed) };
    forget_start(tools, row).await?;
    match launch(tools, &again, Conversation::Wished).await? {
        Launch::Running(_) => Ok(VerbError::Runner(format!("{failed}; session {} goes on on runner {home}", row.id))),
        Launch::Failed(again, second) => give_up(tools, &again, &format!("{second} (after: {why})"), actor).await,
    }
}
