//! `/metrics`, in the `OpenMetrics` text format.

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::api::error::{ApiError, ErrorCode};
use crate::api::state::Shared;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Scrape the counts
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "OpenMetrics", body = String, content_type = "application/openmetrics-text"),
))]
pub(super) async fn scrape(State(api): State<Shared>) -> Result<impl IntoResponse, ApiError> {
    api.worker.refresh_metrics();
    let text = api.tools().metrics.encode();
    let text = text.map_err(|_| ApiError::new(ErrorCode::Internal, "the metrics cannot be written"))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text))
}
