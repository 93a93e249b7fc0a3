//! Sessions: listing, finding, and ensuring that there is one.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::activity::Heard;
use crate::api::access::Caller;
use crate::api::body::{Body, Query};
use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::page::{self, Page};
use crate::api::state::{Api, Shared};
use crate::session::{Id, Session, Status};
use crate::store::SessionFilter;
use crate::time::Span;
use crate::verbs::{self, StartWish, Started, person};

/// Which sessions to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Ended ones too
    #[serde(default)]
    all: bool,
    /// Only this owner's; a token of scope `admin` sees those of all owners when nothing is said
    owner: Option<String>,
    /// Only those in exactly this repo
    repo: Option<String>,
    /// Only those with this engine
    engine: Option<String>,
    /// Only those on this runner
    #[param(value_type = Option<String>)]
    runner: Option<Id>,
    /// Only those that stand like this; `ended` needs no `all`
    status: Option<Status>,
    /// At most this many, 1 to 1000; 200 when nothing is said
    limit: Option<u32>,
    /// What `next` said
    #[param(value_type = Option<String>)]
    after: Option<Id>,
}

/// List the sessions that are the caller's, in the order of their ids
#[utoipa::path(get, path = "/v1/sessions", operation_id = "list_sessions", params(Which), responses(
    (status = 200, description = "A page of them", body = Page<Session>),
))]
pub(super) async fn list(
    State(api): State<Shared>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<Page<Session>>, ApiError> {
    let limit = page::size(which.limit)?;
    let mut filter = SessionFilter {
        open_only: !which.all && which.status.is_none(),
        repo: which.repo.as_deref().map(verbs::tidy_repo),
        engine: which.engine,
        runner: which.runner,
        status: which.status,
        after: which.after,
        limit: Some(limit + 1),
        ..caller.filter(&api)
    };
    if let Some(owner) = which.owner {
        // Somebody else's name shows nobody's sessions to whoever sees only their own.
        let mine = caller.sees_all() || owner == caller.owner;
        filter.ownerless_too = owner == api.owner;
        filter.owner = Some(owner);
        if !mine {
            return Ok(Json(Page { items: Vec::new(), next: None }));
        }
    }
    let found = api.tools().store.list_sessions(&filter).await?;
    Ok(Json(Page::of(found, limit, |session| session.id.to_string())))
}

/// Find one session
#[utoipa::path(get, path = "/v1/sessions/{id}", operation_id = "find_session", params(("id" = Id, Path)), responses(
    (status = 200, description = "Its row", body = Session),
))]
pub(super) async fn find(Owned(session): Owned) -> Json<Session> {
    Json(session)
}

/// What is to be there.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    /// The folder that the engine works in, an absolute path on the runner's machine.
    repo: String,
    /// The engine's name on the runner.
    engine: String,
    /// On which runner; not needed where the session is open, or only one runner could be meant. An open session on another
    /// runner is moved to the one named here.
    runner: Option<Id>,
    /// Move it although its engine cannot be stopped first, since its runner is out of reach.
    #[serde(default)]
    force: bool,
    /// The idle window of a session that is opened, such as `2h`; the rule's when nothing is said.
    #[schema(value_type = Option<String>)]
    idle_after: Option<Span>,
}

/// A session that is open.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ensured {
    /// Its row.
    session: Session,
    /// Whether this request opened it.
    opened: bool,
}

/// Ensure that the caller has an open session in a repo
///
/// 409 when another engine is open there, or the session may not be moved just now; 502 when its engine does not start, with
/// the reason. `opened` is true for the one request that opened it.
#[utoipa::path(post, path = "/v1/sessions", operation_id = "ensure_session", request_body = Wish, responses(
    (status = 200, description = "It is open", body = Ensured),
))]
pub(super) async fn ensure(
    State(api): State<Shared>,
    caller: Caller,
    Body(wish): Body<Wish>,
) -> Result<Json<Ensured>, ApiError> {
    let Wish { repo, engine, runner, force, idle_after } = wish;
    let idle_after = idle_after.map(|span| span.0);
    let wish = StartWish { runner, force, idle_after, ..StartWish::new(caller.owner, repo, engine) };
    let Started { session, opened, .. } = start(&api, &wish).await?;
    Ok(Json(Ensured { session, opened }))
}

/// Starts an engine, or uses the one that is there. Where the runner did not hear of that use, the next one tells it.
pub(super) async fn start(api: &Api, wish: &StartWish) -> Result<Started, ApiError> {
    let started = verbs::start(api.tools(), wish, &person(api.tools(), &wish.owner)).await?;
    if started.heard == Heard::Yes {
        api.worker.recorder.hear(&started.session);
    }
    Ok(started)
}
