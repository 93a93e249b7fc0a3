//! Claiming, renewing and giving up the right to drive a session.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::api::access::Caller;
use crate::api::body::{Body, Query};
use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::state::Shared;
use crate::session::{Id, Session};
use crate::time::UtcMs;
use crate::verbs::{self, Driving};

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

/// Who drives a session now.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct Claimed {
    /// Who claimed it; null when nobody did.
    driver: Option<String>,
    /// When that claim was made or renewed.
    since: Option<UtcMs>,
    /// When it lapses, or lapsed, unless it is renewed.
    lapses_at: Option<UtcMs>,
    /// Whether it no longer gives the right to drive, so that whoever claims it next gets it.
    lapsed: bool,
}

/// Say who drives a session, and until when
#[utoipa::path(get, path = "/v1/sessions/{id}/driver", operation_id = "find_driver", params(("id" = Id, Path)),
    responses((status = 200, description = "The claim as it stands now; asking is no use of the session", body = Claimed)))]
pub(super) async fn show(State(api): State<Shared>, Owned(session): Owned) -> Json<Claimed> {
    let tools = api.tools();
    let stale_after = tools.config().policy.limits_of(&session).driver_stale_after_ms;
    let driving = verbs::driving(&session, stale_after, tools.clock.now());
    Json(driving.map_or_else(Claimed::default, |Driving { driver, since, lapses_at, lapsed }| Claimed {
        driver: Some(driver),
        since,
        lapses_at,
        lapsed,
    }))
}

/// Claim the right to drive a session, or renew it
///
/// 409 when somebody else holds a claim that has not lapsed: the message says who, and until when.
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
