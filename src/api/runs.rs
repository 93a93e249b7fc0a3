//! Runs: beginning, saying that one goes on, finishing, looking.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::api::access::Caller;
use crate::api::activity;
use crate::api::body::{Body, Nothing, Query};
use crate::api::error::{ApiError, ErrorCode};
use crate::api::owned::{Owned, OwnedRun};
use crate::api::page::{self, Page};
use crate::api::sessions;
use crate::api::state::{Api, Shared};
use crate::session::{ActivityKind, Id, Run, RunStatus, Session, Status};
use crate::store::{RunFilter, RunNamer};
use crate::verbs::{self, Finished, Report, StartWish, person};

/// Where a run is to begin: in a session, or in a repo where one is ensured.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    /// The caller's name for the run, so that asking again begins no second one; a new one when none is given.
    id: Option<Id>,
    /// The session, which must be open; or else repo and engine.
    session_id: Option<Id>,
    /// The folder that the engine works in, an absolute path on the runner's machine.
    repo: Option<String>,
    /// The engine's name on the runner.
    engine: Option<String>,
    /// On which runner, as for `POST /v1/sessions`.
    runner: Option<Id>,
}

/// Where a run is to begin, as one or the other.
enum Place {
    Session(Id),
    Repo { repo: String, engine: String, runner: Option<Id> },
}

impl Place {
    fn of(wish: Wish) -> Result<Self, ApiError> {
        match wish {
            Wish { session_id: Some(id), repo: None, engine: None, runner: None, .. } => Ok(Self::Session(id)),
            Wish { session_id: None, repo: Some(repo), engine: Some(engine), runner, .. } => {
                Ok(Self::Repo { repo, engine, runner })
            }
            _ => Err(ApiError::new(ErrorCode::Invalid, "a run begins in a session_id, or in a repo with an engine")),
        }
    }

    /// Returns whether a session is the one that is meant.
    fn is(&self, session: &Session) -> bool {
        match self {
            Self::Session(id) => session.id == *id,
            Self::Repo { repo, engine, runner } => {
                let there = runner.as_ref().is_none_or(|runner| session.runner_id == *runner);
                session.repo == verbs::tidy_repo(repo) && session.engine == *engine && there
            }
        }
    }
}

/// A run that has begun.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Begun {
    /// Its row.
    run: Run,
    /// The row of its session.
    session: Session,
    /// Whether beginning it opened that session.
    opened: bool,
}

/// Begin a run, in a session or in a repo where one is ensured
///
/// Asked again under the same id for the same place, the same run is answered; for another place, 409. 410 when the session
/// has ended.
#[utoipa::path(post, path = "/v1/runs", operation_id = "begin_run", request_body = Wish, responses(
    (status = 200, description = "It has begun", body = Begun),
))]
pub(super) async fn begin(
    State(api): State<Shared>,
    caller: Caller,
    Body(wish): Body<Wish>,
) -> Result<Json<Begun>, ApiError> {
    let id = wish.id.clone();
    let place = Place::of(wish)?;
    // First of all: asking again must neither open a session nor use one.
    if let Some(id) = &id
        && let Some((run, session)) = before(&api, &caller, (id, &place)).await?
    {
        return begun_before(run, session, &place).map(Json);
    }
    let (session, opened) = session_for(&api, &caller, place).await?;
    used(&api, &session).await?;
    let actor = person(api.tools(), &caller.owner);
    let run = verbs::begin_run(api.tools(), (&session, opened), id, &actor).await?;
    let session = reread(&api, &session).await?;
    Ok(Json(Begun { opened: run.opened_session, run, session }))
}

/// Finds the run of an id that the caller has begun before: in the session that is named, whoever's that is, or in any of the
/// caller's own.
async fn before(api: &Api, caller: &Caller, (id, place): (&Id, &Place)) -> Result<Option<(Run, Session)>, ApiError> {
    let store = &api.tools().store;
    let named = match place {
        Place::Session(session) => store.find_session(session).await?,
        Place::Repo { .. } => None,
    };
    if let Some(session) = named.filter(|session| caller.may_see(api, session))
        && let Some(run) = store.find_run(&session.id, id).await?
    {
        return Ok(Some((run, session)));
    }
    let (owner, ownerless_too) = (caller.owner.as_str(), caller.owner == api.owner);
    let by = RunNamer { owner, ownerless_too, others_too: false };
    let Some(session) = store.find_sessions_of_run(id, by).await?.pop() else { return Ok(None) };
    Ok(store.find_run(&session.id, id).await?.map(|run| (run, session)))
}

/// Answers who begins a run that there is: the same, if it is theirs and in the place that they mean.
fn begun_before(run: Run, session: Session, place: &Place) -> Result<Begun, ApiError> {
    if !place.is(&session) {
        let message = format!("there is a run {} elsewhere; choose another id", run.id);
        return Err(ApiError::new(ErrorCode::Conflict, message));
    }
    Ok(Begun { opened: run.opened_session, run, session })
}

/// Records that a run uses its session. An engine that somebody else is starting just now need not be there yet; that start
/// is the session's newest use.
async fn used(api: &Api, session: &Session) -> Result<(), ApiError> {
    match activity::touch(api, session, ActivityKind::Run).await {
        Err(error) if error.code == ErrorCode::NotTracked && session.status == Status::Starting => Ok(()),
        touched => touched.map(drop),
    }
}

/// Finds or ensures the session of a run that is to begin; with whether it was opened now.
async fn session_for(api: &Api, caller: &Caller, place: Place) -> Result<(Session, bool), ApiError> {
    match place {
        Place::Session(id) => {
            let found = api.tools().store.find_session(&id).await?;
            let session = found.filter(|session| caller.may_see(api, session)).ok_or_else(ApiError::not_found)?;
            Ok((session, false))
        }
        Place::Repo { repo, engine, runner } => {
            let wish = StartWish { runner, ..StartWish::new(caller.owner.clone(), repo, engine) };
            let started = sessions::start(api, &wish).await?;
            Ok((started.session, started.opened))
        }
    }
}

/// Which runs to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Only those in this session
    #[param(value_type = Option<String>)]
    session_id: Option<Id>,
    /// Only those that stand like this
    status: Option<RunStatus>,
    /// At most this many, 1 to 1000; 200 when nothing is said
    limit: Option<u32>,
    /// What `next` said
    after: Option<String>,
}

/// List the runs in the caller's sessions, in the order of their ids, without their results
#[utoipa::path(get, path = "/v1/runs", operation_id = "list_runs", params(Which), responses(
    (status = 200, description = "A page of them", body = Page<Run>),
))]
pub(super) async fn list(
    State(api): State<Shared>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<Page<Run>>, ApiError> {
    let limit = page::size(which.limit)?;
    let after = which.after.as_deref().map(behind).transpose()?;
    let mine = caller.filter(&api);
    let filter = RunFilter {
        owner: mine.owner,
        ownerless_too: mine.ownerless_too,
        session: which.session_id,
        status: which.status,
        after,
        limit: Some(limit + 1),
    };
    let found = api.tools().store.list_runs_of(&filter).await?;
    Ok(Json(Page::of(found, limit, |run| format!("{}.{}", run.id, run.session_id))))
}

/// Reads what `next` said: a run's id and its session's, since two owners may have runs of one id.
fn behind(text: &str) -> Result<(Id, Id), ApiError> {
    let ids = text.split_once('.').and_then(|(run, session)| Some((run.parse().ok()?, session.parse().ok()?)));
    ids.ok_or_else(|| ApiError::new(ErrorCode::BadQuery, "after is what next said"))
}

/// Find one run, with its result
#[utoipa::path(get, path = "/v1/runs/{id}", operation_id = "find_run", params(("id" = Id, Path)), responses(
    (status = 200, description = "Its row", body = Run),
))]
pub(super) async fn find(OwnedRun(run): OwnedRun) -> Json<Run> {
    Json(run)
}

/// A run that goes on.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Beaten {
    /// Its row.
    run: Run,
    /// Whether it had been called stale until now; it is running again.
    was_stale: bool,
}

/// Say that a run goes on
///
/// A run that was called stale is running again, and the answer says so. 409 when it has finished, 410 when its session has
/// ended: then it is still to be finished.
#[utoipa::path(post, path = "/v1/runs/{id}/heartbeat", operation_id = "beat_run",
    params(("id" = Id, Path)), responses((status = 200, description = "It goes on", body = Beaten)))]
pub(super) async fn heartbeat(
    State(api): State<Shared>,
    OwnedRun(run): OwnedRun,
    Owned(session): Owned,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Json<Beaten>, ApiError> {
    let was_stale = run.status == RunStatus::Stale;
    let run = verbs::beat_run(api.tools(), &run).await?;
    used(&api, &session).await?;
    Ok(Json(Beaten { run, was_stale }))
}

/// How a run went.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    /// `succeeded`, `failed` or `cancelled`.
    status: RunStatus,
    /// What it has to say, 64 KiB at the most.
    result: Option<String>,
}

/// A run that has finished, and what became of its session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Over {
    /// The run's row.
    run: Run,
    /// Whether it had been called stale before; its result is kept all the same.
    was_stale: bool,
    /// The row of its session.
    session: Session,
    /// Whether that session has ended.
    session_ended: bool,
    /// Why it has, or why it is open still; one sentence.
    why: String,
}

/// Finish a run, and close the session that it opened itself, if nobody else needs it
///
/// A failed run leaves its session open, and so does one in which the engine works, that somebody drives, keeps or used, or
/// whose runner does not answer: `why` says so, and the idle sweep takes the session later. Finishing again in the same way
/// changes nothing; in another way, 409.
#[utoipa::path(post, path = "/v1/runs/{id}/finish", operation_id = "finish_run", request_body = End,
    params(("id" = Id, Path)), responses((status = 200, description = "It has finished", body = Over)))]
pub(super) async fn finish(
    State(api): State<Shared>,
    caller: Caller,
    OwnedRun(run): OwnedRun,
    Body(end): Body<End>,
) -> Result<Json<Over>, ApiError> {
    let End { status, result } = end;
    if run.opened_session && status != RunStatus::Failed {
        // What is held back in memory may be somebody's use of the session; the decision reads the row.
        api.worker.recorder.flush().await;
    }
    let actor = person(api.tools(), &caller.owner);
    let Finished { run, session, why } =
        verbs::finish_run(api.tools(), &run, &Report { status, result }, &actor).await?;
    let (session, why) = used_by(&api, session, why).await?;
    let (was_stale, session_ended) = (run.stale_at.is_some(), !session.is_open());
    Ok(Json(Over { run, was_stale, session, session_ended, why }))
}

/// Records the finish of a run as a use of its session, where that stays open. That its engine turns out to be gone is no
/// reason why the run has not finished.
async fn used_by(api: &Api, session: Session, why: String) -> Result<(Session, String), ApiError> {
    if !session.is_open() {
        return Ok((session, why));
    }
    if let Err(error) = activity::touch(api, &session, ActivityKind::Run).await {
        if error.code == ErrorCode::Store {
            return Err(error);
        }
        return Ok((reread(api, &session).await?, error.message));
    }
    Ok((reread(api, &session).await?, why))
}

async fn reread(api: &Api, session: &Session) -> Result<Session, ApiError> {
    api.tools().store.find_session(&session.id).await?.ok_or_else(ApiError::not_found)
}
