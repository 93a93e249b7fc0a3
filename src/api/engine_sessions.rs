//! A session by the engine's own id of its conversation, for a page that kept only that.

use axum::Json;
use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;

use crate::api::access::Caller;
use crate::api::attach::{How, follow};
use crate::api::body::Query;
use crate::api::error::{ApiError, ErrorCode};
use crate::api::state::Shared;
use crate::session::Session;
use crate::verbs;

/// How many bytes an engine's own id may have.
const LONGEST: usize = 256;

/// The session of the engine's id in the path, if it is the caller's.
pub(super) struct OwnedByEngine(Session);

impl FromRequestParts<Shared> for OwnedByEngine {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, api).await?;
        let bad = || ApiError::new(ErrorCode::BadId, "the engine's id in the path has not the shape of one");
        let path = RawPathParams::from_request_parts(parts, api).await.map_err(|_| bad())?;
        let id = path.iter().find(|(name, _)| *name == "engine_session_id").map(|(_, id)| id).unwrap_or_default();
        if !(1..=LONGEST).contains(&id.len()) || id.chars().any(char::is_control) {
            return Err(bad());
        }
        let found = verbs::find_by_engine_id(api.tools(), Some(&caller.owner), &api.owner, id).await?;
        found.map(Self).ok_or_else(ApiError::not_found)
    }
}

/// Find a session by the engine's own id of its conversation, during its first turn too
#[utoipa::path(get, path = "/v1/engine-sessions/{engine_session_id}", operation_id = "find_engine_session",
    params(("engine_session_id" = String, Path)), responses((status = 200, description = "Its row", body = Session)))]
pub(super) async fn find(OwnedByEngine(session): OwnedByEngine) -> Json<Session> {
    Json(session)
}

/// Follow what a session's engine says, found by the engine's own id of its conversation
#[utoipa::path(get, path = "/v1/engine-sessions/{engine_session_id}/events", operation_id = "follow_engine_session",
    params(("engine_session_id" = String, Path), How), responses((status = 200,
    description = "Events, until the engine is gone", content_type = "text/event-stream", body = String)))]
pub(super) async fn events(
    State(api): State<Shared>,
    OwnedByEngine(session): OwnedByEngine,
    headers: HeaderMap,
    Query(how): Query<How>,
) -> Result<Response, ApiError> {
    follow(api, session, &headers, how).await
}
