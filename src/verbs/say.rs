//! Interrupting the turn of a session's engine, and beginning a fresh conversation in it.

use crate::protocol::SessionRequest;
use crate::runner_client::{Observation, Target};
use crate::session::{ActivityKind, Id, Session};
use crate::tools::Tools;
use crate::verbs::reply::taken;
use crate::verbs::send::used;
use crate::verbs::{VerbError, find_open, once_ready, runner_of};

/// Interrupts the turn that is running; where none is, nothing happens. The session goes on, and was used.
///
/// # Errors
/// When there is no such open session, its engine has ended (its row is closed then), its runner does not do it, or the
/// store fails.
pub async fn interrupt(tools: &Tools, id: &Id) -> Result<Session, VerbError> {
    let (session, target) = addressed(tools, id).await?;
    let request = request(&session);
    let answer = once_ready(tools, &target, || tools.runners.interrupt(&target, &request)).await;
    taken(tools, &session, answer, "interruption").await?;
    used(tools, &session, ActivityKind::Message).await?;
    find_open(tools, id).await
}

/// Begins a fresh conversation in the same engine.
///
/// It may get another id of the engine's own. That is noted here if the runner tells it already; some engines name it only
/// with the next turn.
///
/// # Errors
/// When there is no such open session, its engine has ended (its row is closed then) or knows no such thing, its runner
/// does not do it, or the store fails.
pub async fn clear(tools: &Tools, id: &Id) -> Result<Session, VerbError> {
    let (session, target) = addressed(tools, id).await?;
    let request = request(&session);
    let answer = once_ready(tools, &target, || tools.runners.clear(&target, &request)).await;
    let told = taken(tools, &session, answer, "clearing").await?.and_then(|engine| engine.engine_session_id);
    used(tools, &session, ActivityKind::Message).await?;
    let told = match told {
        Some(told) => Some(told),
        None => conversation(tools, &target, &session).await,
    };
    if let Some(told) = told {
        tools.store.set_engine_session_id(id, session.generation, &told).await?;
    }
    find_open(tools, id).await
}

async fn addressed(tools: &Tools, id: &Id) -> Result<(Session, Target), VerbError> {
    let session = find_open(tools, id).await?;
    let target = runner_of(tools, &session.runner_id).await?;
    Ok((session, target))
}

fn request(session: &Session) -> SessionRequest {
    SessionRequest {
        session_id: session.id.clone(),
        generation: session.generation,
        owner_id: session.owner_id.clone(),
    }
}

/// Asks the runner for the id that the engine of this start gives its conversation now.
async fn conversation(tools: &Tools, target: &Target, session: &Session) -> Option<String> {
    let Observation::Live(set) = tools.runners.tracked(target).await else { return None };
    let this_start = |generation: Option<i64>| generation == Some(session.generation);
    let engine = set.tracked.into_iter().find(|one| one.session_id == session.id && this_start(one.generation))?;
    engine.engine_session_id
}
