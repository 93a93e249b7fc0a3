//! Freeing a session from the runner that it is to leave: its engine is stopped there, or it stays.

use crate::policy::engine::{EngineSays, may_stop};
use crate::protocol::tracked::TrackedSet;
use crate::protocol::{Because, EndMode, EndRequest, Ended, EngineState, StopLimits, Told, TrackedSession};
use crate::runner_client::{Observation, StopAnswer, StopCall, Target};
use crate::session::Session;
use crate::time::{MINUTE, Ms, SECOND};
use crate::timeline::{Freed, RELOCATED, in_the_way};
use crate::tools::Tools;
use crate::verbs::{VerbError, close_if_ended};
use crate::verdict::Verdict;

/// Has the runner of an open session stop its engine, so that it can go on at another one; none when the engine had ended
/// by itself, and its row is closed.
///
/// What must be true for the stop: the runner answered just now, with the engine of this very generation, which neither
/// works nor waits nor is in a state that cannot be told, however long it has been silent; nothing has used it for a while
/// ([`settled_for`]), so that no message is on its way to it; its conversation has an id with which it can go on elsewhere,
/// which stands in the row before the engine is stopped; and its runner checks all that again under its own lock: a turn
/// that begins in the same moment makes it refuse. A runner that checks no conditions is not asked. What is left undone
/// without `force` leaves the row as it is.
///
/// # Errors
/// When the engine is in use, its runner refuses, has not finished, or is out of reach and `force` is not said.
pub(super) async fn free(tools: &Tools, open: &Session, force: bool) -> Result<Option<Freed>, VerbError> {
    let Some(runner) = tools.store.find_runner(&open.runner_id).await? else {
        return out_of_reach(open, "it is not enrolled any more", force).map(Some);
    };
    let target = Target::from(&runner);
    let answer = tools.runners.tracked(&target).await;
    let Observation::Live(set) = answer else {
        return out_of_reach(open, answer.why().unwrap_or("it gave no answer"), force).map(Some);
    };
    let fits = |ended: &&Ended| ended.session_id == open.id && ended.generation == open.generation;
    if let Some(ended) = set.ended.iter().find(fits) {
        if ended.reason == RELOCATED {
            tools.store.note_last_engine_id(&open.runner_id, ended).await?;
            return Ok(Some(Freed::Stopped(Box::new(ended.clone()))));
        }
        close_if_ended(tools, open).await?;
        return Ok(None);
    }
    let Some(engine) = held_idle(open, &set)? else { return Ok(Some(Freed::NotHeld)) };
    if let Some(own) = &engine.engine_session_id {
        let said = (open.id.clone(), Some(open.generation), own.clone());
        tools.store.note_engine_ids(&open.runner_id, &[said]).await?;
    }
    // As the row has it: an id that somebody else's session has is not written, and nothing could go on with it.
    let row = tools.store.find_session(&open.id).await?;
    if row.is_none_or(|row| row.engine_session_id.is_none()) && !force {
        return Err(stays(
            open,
            "it told no id of its conversation and would begin a fresh one there; `force` moves it all the same",
        ));
    }
    let quiet = settled_for(&engine.state);
    let target = target.seen(&set);
    if !target.speaks_protocol {
        return Err(stays(open, "it does not check whether a turn is running before it stops an engine"));
    }
    let freed = stop(tools, (open, &target), (set.stamp, quiet), force).await?;
    if let Some(Freed::Stopped(ended)) = &freed {
        // What it called its conversation last is what it can be continued with.
        tools.store.note_last_engine_id(&open.runner_id, ended).await?;
    }
    Ok(freed)
}

/// For how long nothing may have used an engine that is to be moved: a message that its runner took has begun a turn by
/// then. One that does not tell its turns may work for longer without a word.
fn settled_for(engine: &EngineState) -> Ms {
    if engine.generating == Told::Silent { MINUTE } else { 5 * SECOND }
}

/// Returns the engine of this generation if the runner holds it, doing nothing; none when it holds none.
fn held_idle<'a>(open: &Session, set: &'a TrackedSet) -> Result<Option<&'a TrackedSession>, VerbError> {
    let Some(engine) = set.tracked.iter().find(|engine| engine.session_id == open.id) else { return Ok(None) };
    if engine.generation.is_some_and(|own| own != open.generation) {
        return Err(stays(open, &in_the_way(Because::Generation, None)));
    }
    match may_stop(&engine.state, &StopLimits::only_if_doing_nothing(settled_for(&engine.state))) {
        EngineSays::MayStop(Verdict::Idle) => Ok(Some(engine)),
        // A turn that its runner calls stalled, without saying for how long, is a turn all the same.
        EngineSays::MayStop(_) => Err(stays(open, &in_the_way(Because::Generating, None))),
        EngineSays::Protected { because, .. } => Err(stays(open, &in_the_way(because, engine.state.idle_ms.value()))),
        EngineSays::Undetermined => Err(stays(open, "it cannot be told whether the engine works just now")),
    }
}

async fn stop(
    tools: &Tools,
    (open, target): (&Session, &Target),
    (stamp, quiet): (Option<String>, Ms),
    force: bool,
) -> Result<Option<Freed>, VerbError> {
    let request = EndRequest {
        session_id: open.id.clone(),
        generation: open.generation,
        mode: EndMode::IfIdle,
        limits: Some(StopLimits::only_if_doing_nothing(quiet)),
        stamp,
        reason: RELOCATED.to_owned(),
        sweep_id: None,
        owner_id: None,
    };
    match tools.runners.end(target, &StopCall { request, set_recognised: false }).await {
        StopAnswer::Stopped(ended) => Ok(Some(Freed::Stopped(ended))),
        StopAnswer::AlreadyStopped(ended) if ended.reason == RELOCATED => Ok(Some(Freed::Stopped(ended))),
        // Something else stopped it in this moment, and its row closes with that reason.
        StopAnswer::AlreadyStopped(_) => close_if_ended(tools, open).await.map(|()| None),
        StopAnswer::NotTracked => Ok(Some(Freed::NotHeld)),
        StopAnswer::Refused { because: Some(because), idle_ms, .. } => Err(stays(open, &in_the_way(because, idle_ms))),
        StopAnswer::Refused { because: None, .. } => Err(stays(open, "it refused to stop the engine")),
        StopAnswer::Accepted => Err(VerbError::Runner(format!(
            "runner {} has begun to stop the engine of session {} and has not finished; ask again",
            open.runner_id, open.id
        ))),
        StopAnswer::Failed(why) | StopAnswer::NoAnswer(why) => out_of_reach(open, &why, force).map(Some),
    }
}

fn stays(open: &Session, why: &str) -> VerbError {
    VerbError::Conflict(format!("session {} stays on runner {}: {why}", open.id, open.runner_id))
}

/// Says what follows where nobody can tell whether the engine lives.
fn out_of_reach(open: &Session, why: &str, force: bool) -> Result<Freed, VerbError> {
    if force {
        return Ok(Freed::LeftAlone(why.to_owned()));
    }
    Err(VerbError::Conflict(format!(
        "session {} stays on runner {}, whose engine cannot be stopped ({why}): two engines might write into one conversation; `force` moves it all the same",
        open.id, open.runner_id
    )))
}
