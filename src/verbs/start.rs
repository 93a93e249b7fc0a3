//! Starting an engine for an owner in a repo: row first, then engine, so that no engine is ever without a row.

use crate::activity::{Heard, touch_once};
use crate::protocol::{ForgetRequest, StartRequest, TrackedSession};
use crate::runner_client::{NoAnswer, SessionReply, Target};
use crate::session::{ActivityKind, Id, Session, Status};
use crate::store::{Close, Guard, Inserted};
use crate::time::UtcMs;
use crate::timeline::{self, Actor};
use crate::tools::Tools;
use crate::verbs::{VerbError, close_if_ended, find_open, runner_of};
use crate::verdict::Verdict;

/// What is to be started.
#[derive(Debug, Clone)]
pub struct StartWish {
    /// For whom.
    pub owner: String,
    /// The folder that the engine works in.
    pub repo: String,
    /// The engine's name on the runner.
    pub engine: String,
    /// On which runner.
    pub runner_id: Id,
    /// Arguments for the engine.
    pub args: Vec<String>,
}

/// A session that is open now.
#[derive(Debug, Clone)]
pub struct Started {
    /// Its row.
    pub session: Session,
    /// Whether this call opened it; false when the owner had it open in that repo.
    pub opened: bool,
}

/// Starts an engine, or returns the session that the owner has open in that repo already.
///
/// # Errors
/// When the owner has another engine open there, the runner cannot start it (the row is closed as `start_failed`, unless
/// nobody knows whether the engine runs: then the next passes settle it), or the store fails.
pub async fn start(tools: &Tools, wish: &StartWish, actor: &Actor) -> Result<Started, VerbError> {
    let target = runner_of(tools, &wish.runner_id).await?;
    let now = tools.clock.now();
    let session = row(wish, now);
    match tools.store.insert_session(&session, &timeline::started(&session, actor, now)).await? {
        Inserted::Done => {}
        Inserted::Taken(open) if open.engine == wish.engine => return ensured(tools, *open).await,
        Inserted::Taken(open) => {
            return Err(VerbError::Conflict(format!(
                "{} has session {} with engine {} open in {}; end it first",
                wish.owner, open.id, open.engine, wish.repo
            )));
        }
    }
    match tools.runners.start(&target, &request(&session, wish)).await {
        Ok(SessionReply::Done(engine)) => opened(tools, &session, engine.as_deref()).await,
        Ok(SessionReply::Refused { message, .. }) => give_up(tools, &target, (&session, actor), &message).await,
        Ok(SessionReply::Unsupported) => give_up(tools, &target, (&session, actor), "it cannot start engines").await,
        Ok(SessionReply::Ended { reason }) => give_up(tools, &target, (&session, actor), &reason).await,
        Err(NoAnswer::Unconnected(why)) => give_up(tools, &target, (&session, actor), &why).await,
        Ok(SessionReply::NotTracked | SessionReply::Generation { .. }) | Err(_) => Err(VerbError::Runner(format!(
            "runner {} did not say whether session {} runs; the next passes settle it",
            wish.runner_id, session.id
        ))),
    }
}

/// Returns the session that is open already; asking for it is a use of it.
async fn ensured(tools: &Tools, open: Session) -> Result<Started, VerbError> {
    if let Heard::Ended(reason) = touch_once(tools, &open, ActivityKind::Start).await? {
        close_if_ended(tools, &open).await?;
        return Err(VerbError::Ended { id: open.id, reason });
    }
    Ok(Started { session: find_open(tools, &open.id).await?, opened: false })
}

fn row(wish: &StartWish, now: UtcMs) -> Session {
    Session {
        id: Id::new(),
        runner_id: wish.runner_id.clone(),
        owner_id: Some(wish.owner.clone()),
        repo: wish.repo.clone(),
        engine: wish.engine.clone(),
        engine_session_id: None,
        status: Status::Starting,
        generation: 1,
        reopened: 0,
        started_at: Some(now),
        attached_at: Some(now),
        updated_at: Some(now),
        last_activity_at: Some(now),
        last_activity_kind: Some(ActivityKind::Start),
        driver: None,
        driver_at: None,
        keep_until: None,
        keep_reason: None,
        idle_after_ms: None,
        next_check_at: None,
        ended_at: None,
        end_reason: None,
    }
}

fn request(session: &Session, wish: &StartWish) -> StartRequest {
    StartRequest {
        session_id: session.id.clone(),
        generation: session.generation,
        engine: wish.engine.clone(),
        cwd: wish.repo.clone(),
        args: wish.args.clone(),
        env: std::collections::BTreeMap::new(),
        owner_id: Some(wish.owner.clone()),
        engine_session_id: None,
    }
}

async fn opened(tools: &Tools, session: &Session, engine: Option<&TrackedSession>) -> Result<Started, VerbError> {
    tools.store.mark_active(&session.id, session.generation, tools.clock.now()).await?;
    if let Some(id) = engine.and_then(|engine| engine.engine_session_id.as_deref()) {
        tools.store.set_engine_session_id(&session.id, session.generation, id).await?;
    }
    Ok(Started { session: find_open(tools, &session.id).await?, opened: true })
}

/// Closes the row of an engine that certainly does not run, and tells why.
async fn give_up(
    tools: &Tools,
    target: &Target,
    (session, actor): (&Session, &Actor),
    why: &str,
) -> Result<Started, VerbError> {
    let now = tools.clock.now();
    let entry = timeline::start_failed(session, why, actor, now);
    let reason = Verdict::StartFailed.as_str();
    let close = Close { session, at: now, reason, guard: Guard::Unchanged, entry: &entry, item: None };
    tools.store.close_session(&close).await?;
    let request = ForgetRequest { session_id: session.id.clone(), generation: session.generation };
    let _told = tools.runners.forget(target, &request).await;
    Err(VerbError::Runner(format!("{} did not start on runner {}: {why}", session.engine, session.runner_id)))
}
