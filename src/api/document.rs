//! `/openapi.json`: the description of this API.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::api::state::Shared;

/// The frame of the document; the routes fill it.
#[derive(utoipa::OpenApi)]
#[openapi(info(
    title = "Sexton",
    version = env!("CARGO_PKG_VERSION"),
    description = "Stops coding-agent sessions that nobody uses any more, and says why",
    license(name = "MIT OR Apache-2.0"),
    contact()
))]
pub(super) struct Doc;

/// Describe this API
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub(super) async fn openapi(State(api): State<Shared>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], Bytes::clone(&api.document))
}
