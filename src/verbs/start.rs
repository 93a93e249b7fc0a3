//! Starting an engine for an owner in a repo: row first, then engine, so that no engine is ever without a row.

use crate::activity::{Heard, touch_once};
use crate::protocol::{ForgetRequest, StartRequest, TrackedSession};
use crate::runner_client::{NoAnswer, SessionReply, Target};
use crate::session::{ActivityKind, Id, Session, Status};
use crate::store::{Close, Guard, Inserted};
use crate::time::UtcMs;
use crate::timeline::{self, Actor};
use crate::tools::Tools;
use crate::verbs::lease::environment;
use crate::verbs::{VerbError, close_if_ended, find_open, not_held, once_ready, runner_of};
use crate::verdict::Verdict;

/// The longest path of a repo.
const LONGEST_REPO: usize = 4_096;

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
    /// What its runner said: that it started the engine, or to the touch of one that was there. It counts as a use.
    pub heard: Heard,
}

/// Starts an engine, or returns the session that the owner has open in that repo already, which is a use of it.
///
/// Where that one's runner says that its engine has ended, its row is closed and a new session opened.
///
/// # Errors
/// When the repo is no absolute path, the owner has another engine open there, the runner of the open one holds no engine
/// for it or another start (the row stays for the next passes), the runner cannot start it (the row is closed as
/// `start_failed`, unless nobody knows whether the engine runs: then the next passes settle it), or the store fails.
pub async fn start(tools: &Tools, wish: &StartWish, actor: &Actor) -> Result<Started, VerbError> {
    check_repo(&wish.repo)?;
    let target = runner_of(tools, &wish.runner_id).await?;
    let open = match open_row(tools, wish, actor).await? {
        Ok(session) => return launch(tools, &target, (&session, actor), wish).await,
        Err(open) => open,
    };
    let reason = match touch_once(tools, &open, ActivityKind::Start).await? {
        Heard::Ended(reason) => reason,
        heard @ (Heard::Yes | Heard::Unreached | Heard::NotTracked | Heard::Generation) => {
            return reused(tools, &open, heard).await;
        }
    };
    close_if_ended(tools, &open).await?;
    match open_row(tools, wish, actor).await? {
        Ok(session) => launch(tools, &target, (&session, actor), wish).await,
        Err(_) => Err(VerbError::Ended { id: open.id, reason }),
    }
}

/// Returns the session that was there, unless its runner says that it holds no such engine; one that is being started by
/// somebody else just now need not be there yet.
async fn reused(tools: &Tools, open: &Session, heard: Heard) -> Result<Started, VerbError> {
    let session = find_open(tools, &open.id).await?;
    let not_held = not_held(&session, &heard).filter(|_| session.status != Status::Starting);
    match not_held {
        Some(error) => Err(error),
        None => Ok(Started { session, opened: false, heard }),
    }
}

fn check_repo(repo: &str) -> Result<(), VerbError> {
    if repo.starts_with('/') && repo.len() <= LONGEST_REPO && !repo.chars().any(char::is_control) {
        return Ok(());
    }
    Err(VerbError::Invalid("repo must be an absolute path without control characters".to_owned()))
}

/// Puts in the row of a new session; or returns the one that is open there with the same engine.
async fn open_row(tools: &Tools, wish: &StartWish, actor: &Actor) -> Result<Result<Session, Session>, VerbError> {
    let now = tools.clock.now();
    let session = row(wish, now);
    match tools.store.insert_session(&session, &timeline::started(&session, actor, now)).await? {
        Inserted::Done => Ok(Ok(session)),
        Inserted::Taken(open) if open.engine == wish.engine => Ok(Err(*open)),
        Inserted::Taken(open) => Err(VerbError::Conflict(format!(
            "{} has session {} with engine {} open in {}; end it first",
            wish.owner, open.id, open.engine, wish.repo
        ))),
    }
}

/// The refusals after which there is certainly no engine.
const NOT_STARTED: [&str; 5] = ["start_failed", "unknown_engine", "not_ready", "busy", "bad_request"];

/// Starts the engine of a row that was just made.
async fn launch(
    tools: &Tools,
    target: &Target,
    (session, actor): (&Session, &Actor),
    wish: &StartWish,
) -> Result<Started, VerbError> {
    let request = StartRequest { env: environment(tools, session).await?, ..request(session, wish) };
    // A row in `starting` is left alone for longer than this waits.
    let why = match once_ready(tools, target, || tools.runners.start(target, &request)).await {
        Ok(SessionReply::Done(engine)) => return opened(tools, session, engine.as_deref()).await,
        Ok(SessionReply::Refused { outcome, message }) if NOT_STARTED.contains(&outcome.as_str()) => message,
        Ok(SessionReply::Unsupported) => "it cannot start engines".to_owned(),
        Ok(SessionReply::Ended { reason }) => reason,
        Err(NoAnswer::Unconnected(why)) => why,
        Ok(SessionReply::Generation { highest: Some(highest) }) => {
            return Err(VerbError::Runner(format!(
                "runner {} knows session {} up to start {highest}; the next passes settle it",
                wish.runner_id, session.id
            )));
        }
        Ok(SessionReply::Refused { .. } | SessionReply::NotTracked | SessionReply::Generation { .. }) | Err(_) => {
            return Err(VerbError::Runner(format!(
                "runner {} did not say whether session {} runs; the next passes settle it",
                wish.runner_id, session.id
            )));
        }
    };
    give_up(tools, target, (session, actor), &why).await
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
    Ok(Started { session: find_open(tools, &session.id).await?, opened: true, heard: Heard::Yes })
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
