//! Ending a session because its owner wants it.

use axum::Json;
use axum::extract::State;

use crate::api::access::Caller;
use crate::api::body::{Body, Nothing};
use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::state::Shared;
use crate::session::{Id, Session};
use crate::verbs::{self, person};

/// End a session: stop its engine, then close its row
#[utoipa::path(post, path = "/v1/sessions/{id}/end", operation_id = "end_session",
    params(("id" = Id, Path)), responses((status = 200, description = "Its engine is stopped and its row closed", body = Session)))]
pub(super) async fn end(
    State(api): State<Shared>,
    caller: Caller,
    Owned(session): Owned,
    Body(Nothing {}): Body<Nothing>,
) -> Result<Json<Session>, ApiError> {
    let actor = person(api.tools(), &caller.owner);
    Ok(Json(verbs::end(api.tools(), &session.id, &actor).await?))
}
