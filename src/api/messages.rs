//! Giving a session's engine a message.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::api::body::Body;
use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::state::Shared;
use crate::session::{Id, Session};
use crate::verbs;

/// A message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Message {
    /// What the engine is to read.
    text: String,
}

/// Give a session's engine a message; answered once its runner took it
#[utoipa::path(post, path = "/v1/sessions/{id}/messages", operation_id = "send_message", request_body = Message,
    params(("id" = Id, Path)), responses((status = 200, description = "The runner took it", body = Session)))]
pub(super) async fn send(
    State(api): State<Shared>,
    Owned(session): Owned,
    Body(message): Body<Message>,
) -> Result<Json<Session>, ApiError> {
    let session = verbs::send(api.tools(), &session.id, &message.text).await?;
    api.worker.recorder.hear(&session);
    Ok(Json(session))
}
