//! What became of events that webhooks were to be told of.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::api::body::Query;
use crate::api::error::ApiError;
use crate::api::page::{self, Page};
use crate::api::state::Shared;
use crate::entry::{Delivery, DeliveryStatus};
use crate::session::Id;
use crate::store::DeliveryFilter;

/// Which deliveries.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// Only those that stand so: `pending`, `delivered` or `given_up`
    #[param(value_type = Option<String>)]
    status: Option<DeliveryStatus>,
    /// At most this many, 1 to 1000; 200 when nothing is said
    limit: Option<u32>,
    /// What `next` said
    #[param(value_type = Option<String>)]
    after: Option<Id>,
}

/// List deliveries to webhooks, the newest first
#[utoipa::path(get, path = "/v1/deliveries", operation_id = "list_deliveries", params(Which), responses(
    (status = 200, description = "A page of them", body = Page<Delivery>),
))]
pub(super) async fn list(
    State(api): State<Shared>,
    Query(which): Query<Which>,
) -> Result<Json<Page<Delivery>>, ApiError> {
    let limit = page::size(which.limit)?;
    let filter = DeliveryFilter { status: which.status, after: which.after, limit: limit + 1 };
    let found = api.tools().store.list_deliveries(&filter).await?;
    Ok(Json(Page::of(found, limit, |delivery| delivery.id.to_string())))
}
