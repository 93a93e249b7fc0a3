//! Claiming, renewing and giving up the right to drive a session.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::api::access::Caller;
use crate::api::body::{Body, Query};
use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::state::Shared;
use crate::session::{Id, Session};
use crate::verbs;

/// Who drives.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Driver {
    /// A person's or a pilot's name.
    driver: String,
}

/// Whose claim is given up.
#[derive(Debug, Default, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Given {
    /// A person's or a pilot's name; the token's owner when none is given
    driver: Option<String>,
}

/// Claim the right to drive a session, or renew it
#[utoipa::path(post, path = "/v1/sessions/{id}/driver", operation_id = "claim_driver", request_body = Driver,
    params(("id" = Id, Path)), responses((status = 200, description = "The driver drives it", body = Session)))]
pub(super) async fn claim(
    State(api): State<Shared>,
    Owned(session): Owned,
    Body(driver): Body<Driver>,
) -> Result<Json<Session>, ApiError> {
    Ok(Json(verbs::claim(api.tools(), &session.id, &driver.driver).await?))
}

/// Give up the right to drive a session; harmless when it is not held
#[utoipa::path(delete, path = "/v1/sessions/{id}/driver", operation_id = "release_driver", request_body = Option<Given>,
    params(("id" = Id, Path), Given), responses((status = 200, description = "The driver does not drive it", body = Session)))]
pub(super) async fn release(
    State(api): State<Shared>,
    caller: Caller,
    Owned(session): Owned,
    Query(query): Query<Given>,
    Body(body): Body<Given>,
) -> Result<Json<Session>, ApiError> {
    let driver = query.driver.or(body.driver).unwrap_or(caller.owner);
    Ok(Json(verbs::release(api.tools(), &session.id, &driver).await?))
}
