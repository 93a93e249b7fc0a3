//! Why a session was stopped, or why it was not; asking is no use of it.

use axum::Json;
use axum::extract::State;

use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::state::Shared;
use crate::session::Id;
use crate::sweep::{self, Explanation};

/// Say why a session was stopped, or why it was not and when it would be
#[utoipa::path(get, path = "/v1/sessions/{id}/explain", operation_id = "explain_session",
    params(("id" = Id, Path)), responses((status = 200, description = "The verdict and its figures", body = Explanation)))]
pub(super) async fn explain(State(api): State<Shared>, Owned(session): Owned) -> Result<Json<Explanation>, ApiError> {
    let explanation = sweep::explain(api.tools(), &session.id).await?;
    explanation.map(Json).ok_or_else(ApiError::not_found)
}
