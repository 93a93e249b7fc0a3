//! Claiming, renewing and giving up the right to drive a session.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::api::body::Body;
use crate::api::error::{ApiError, ErrorCode};
use crate::api::owned::Owned;
use crate::api::state::Shared;
use crate::session::{Id, Session};
use crate::verbs;

/// The longest name of a driver.
const LONGEST_DRIVER: usize = 128;

/// Who drives.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Driver {
    /// A person's or a pilot's name.
    driver: String,
}

impl Driver {
    fn name(&self) -> Result<&str, ApiError> {
        let name = self.driver.as_str();
        if name.trim().is_empty() || name.len() > LONGEST_DRIVER || name.chars().any(char::is_control) {
            let message = format!("driver must be a name of 1 to {LONGEST_DRIVER} bytes without control characters");
            return Err(ApiError::new(ErrorCode::Invalid, message));
        }
        Ok(name)
    }
}

/// Claim the right to drive a session, or renew it
#[utoipa::path(post, path = "/v1/sessions/{id}/driver", operation_id = "claim_driver", request_body = Driver,
    params(("id" = Id, Path)), responses((status = 200, description = "The driver drives it", body = Session)))]
pub(super) async fn claim(
    State(api): State<Shared>,
    Owned(session): Owned,
    Body(driver): Body<Driver>,
) -> Result<Json<Session>, ApiError> {
    Ok(Json(verbs::claim(api.tools(), &session.id, driver.name()?).await?))
}

/// Give up the right to drive a session; harmless when it is not held
#[utoipa::path(delete, path = "/v1/sessions/{id}/driver", operation_id = "release_driver", request_body = Driver,
    params(("id" = Id, Path)), responses((status = 200, description = "The driver does not drive it", body = Session)))]
pub(super) async fn release(
    State(api): State<Shared>,
    Owned(session): Owned,
    Body(driver): Body<Driver>,
) -> Result<Json<Session>, ApiError> {
    Ok(Json(verbs::release(api.tools(), &session.id, driver.name()?).await?))
}
