//! `/healthz` and `/readyz`: for probes, so without a token; they tell nothing about sessions and name no file.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::error::{ApiError, ErrorCode};
use crate::api::state::{Api, Shared};
use crate::time::spoken;

/// What somebody has to do before anybody can use the worker.
pub(super) const NO_TOKEN: &str =
    "there is no token yet, so nobody can use the worker: sexton tokens create --owner NAME --scope read,use";

/// How a probe is answered when all is well.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Probe {
    /// `ok`
    status: &'static str,
}

const OK: Json<Probe> = Json(Probe { status: "ok" });

/// Say that the process answers
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "It answers", body = Probe)))]
pub(super) async fn healthz() -> Json<Probe> {
    OK
}

/// Say whether the worker does its work, and what to do if not
#[utoipa::path(get, path = "/readyz", responses(
    (status = 200, description = "It sweeps, and somebody can use it", body = Probe),
    (status = 503, description = "It does not, and why", body = crate::api::ErrorBody),
))]
pub(super) async fn readyz(State(api): State<Shared>) -> Result<Json<Probe>, ApiError> {
    check(&api).await.map(|()| OK)
}

/// Finds what keeps the worker from its work.
async fn check(api: &Api) -> Result<(), ApiError> {
    api.tools().store.check_in_place().await?;
    if api.tools().store.count_tokens().await? == 0 {
        return Err(ApiError::new(ErrorCode::NoToken, NO_TOKEN));
    }
    if api.worker.trouble.now().is_some() {
        return Err(ApiError::new(ErrorCode::Sweeps, "the last pass failed; the worker's log says why"));
    }
    match api.worker.behind_by() {
        None => Ok(()),
        Some(ms) => {
            let message =
                format!("the last pass ended {} ago, several ticks of the schedule; the log says more", spoken(ms));
            Err(ApiError::new(ErrorCode::Sweeps, message))
        }
    }
}
