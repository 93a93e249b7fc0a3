//! Keeping a session from being reaped, for a time and a reason.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::api::access::Caller;
use crate::api::body::Body;
use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::state::Shared;
use crate::session::{Id, Session};
use crate::time::Span;
use crate::verbs::{self, person};

/// For how long, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    /// For how long from now on, such as `12h`; 30 days at most, 24 hours for the session's own engine.
    #[serde(rename = "for")]
    #[schema(value_type = String)]
    time: Span,
    /// Why, for whoever reads the timeline.
    because: String,
}

/// Keep a session from being reaped until a time; a later keep replaces an earlier one
///
/// With the token that the session's engine has in its environment, the end only moves forward.
#[utoipa::path(post, path = "/v1/sessions/{id}/keep", operation_id = "keep_session", request_body = Wish,
    params(("id" = Id, Path)), responses((status = 200, description = "It is kept", body = Session)))]
pub(super) async fn keep(
    State(api): State<Shared>,
    caller: Caller,
    Owned(session): Owned,
    Body(wish): Body<Wish>,
) -> Result<Json<Session>, ApiError> {
    if caller.lease.is_some() {
        return Ok(Json(verbs::keep_own(api.tools(), &session.id, wish.time.0, &wish.because).await?));
    }
    let actor = person(api.tools(), &caller.owner);
    Ok(Json(verbs::keep(api.tools(), &session.id, wish.time.0, &wish.because, &actor).await?))
}
