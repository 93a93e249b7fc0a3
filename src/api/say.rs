//! Interrupting a turn, and beginning a fresh conversation.

use axum::Json;
use axum::extract::State;

use crate::api::body::{Body, Nothing};
use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::state::Shared;
use crate::session::{Id, Session};
use crate::verbs;

/// Interrupt the turn that is running; where none is, nothing happens
#[utoipa::path(post, path = "/v1/sessions/{id}/interrupt", operation_id = "interrupt_session",
    params(("id" = Id, Path)), responses((status = 200, description = "The engine was told; its session goes on", body = Session)))]
pub(super) async fn interrupt(
    State(api): State<Shared>,
    Owned(session): Owned,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Json<Session>, ApiError> {
    let session = verbs::interrupt(api.tools(), &session.id).await?;
    api.worker.recorder.hear(&session);
    Ok(Json(session))
}

/// Begin a fresh conversation in the same engine
///
/// The engine may give it another id of its own. 409 when it knows no such thing.
#[utoipa::path(post, path = "/v1/sessions/{id}/clear", operation_id = "clear_session",
    params(("id" = Id, Path)), responses((status = 200, description = "The engine was told; its session goes on", body = Session)))]
pub(super) async fn clear(
    State(api): State<Shared>,
    Owned(session): Owned,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Json<Session>, ApiError> {
    let session = verbs::clear(api.tools(), &session.id).await?;
    api.worker.recorder.hear(&session);
    Ok(Json(session))
}
