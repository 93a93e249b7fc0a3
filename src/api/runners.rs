//! The enrolled runners.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::api::page::Page;
use crate::api::state::Shared;
use crate::session::{Id, Runner};
use crate::time::UtcMs;

/// An enrolled runner, without where its secret lies.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Enrolled {
    /// The name it was enrolled under.
    id: Id,
    /// Its base URL.
    url: String,
    /// When it was enrolled.
    created_at: UtcMs,
    /// When a connection to it last succeeded; null when never.
    last_seen_at: Option<UtcMs>,
    /// The highest epoch it has shown.
    epoch: Option<i64>,
    /// The highest version of the protocol that it has said; null for a foreign runner.
    protocol: Option<i64>,
    /// The identity that it answers with.
    identity: Option<String>,
    /// Whether stops that it cannot check itself are refused.
    require_conditional_stop: bool,
}

impl From<Runner> for Enrolled {
    fn from(row: Runner) -> Self {
        Self {
            id: row.id,
            url: row.url,
            created_at: row.created_at,
            last_seen_at: row.last_seen_at,
            epoch: row.epoch,
            protocol: row.protocol,
            identity: row.identity,
            require_conditional_stop: row.require_conditional_stop,
        }
    }
}

/// List the enrolled runners, in the order of their ids
#[utoipa::path(get, path = "/v1/runners", operation_id = "list_runners", responses(
    (status = 200, description = "All of them", body = Page<Enrolled>),
))]
pub(super) async fn list(State(api): State<Shared>) -> Result<Json<Page<Enrolled>>, ApiError> {
    let runners = api.tools().store.list_runners().await?;
    Ok(Json(Page { items: runners.into_iter().map(Enrolled::from).collect(), next: None }))
}
