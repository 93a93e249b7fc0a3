//! A session by the engine's own id of its conversation, for a page that kept only that.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::api::attach::{How, follow};
use crate::api::body::Query;
use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::state::Shared;
use crate::session::Session;

/// Find a session by the engine's own id of its conversation, during its first turn too
#[utoipa::path(get, path = "/v1/engine-sessions/{engine_session_id}", operation_id = "find_engine_session",
    params(("engine_session_id" = String, Path)), responses((status = 200, description = "Its row", body = Session)))]
pub(super) async fn find(Owned(session): Owned) -> Json<Session> {
    Json(session)
}

/// Follow what a session's engine says, found by the engine's own id of its conversation
#[utoipa::path(get, path = "/v1/engine-sessions/{engine_session_id}/events", operation_id = "follow_engine_session",
    params(("engine_session_id" = String, Path), How), responses((status = 200,
    description = "Events, until the engine is gone", content_type = "text/event-stream", body = String)))]
pub(super) async fn events(
    State(api): State<Shared>,
    Owned(session): Owned,
    headers: HeaderMap,
    Query(how): Query<How>,
) -> Result<Response, ApiError> {
    follow(api, session, &headers, how).await
}
