//! Asking for a pass, and looking at past ones.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::api::body::{Body, Query};
use crate::api::error::{ApiError, ErrorCode};
use crate::api::page::{self, Page};
use crate::api::state::Shared;
use crate::report::{PartName, SweepReport, Trigger};
use crate::session::Id;
use crate::store::Sweep;
use crate::sweep::Request;

/// Which pass.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    /// Only these parts: `runs`, `idle`, `orphans`, `strays`, `deliveries`; all of them when none is named.
    #[serde(default)]
    only: Vec<PartName>,
    /// Only say what would be done; write nothing.
    #[serde(default)]
    dry_run: bool,
}

/// Make one pass now, after the one that is running
#[utoipa::path(post, path = "/v1/sweeps", operation_id = "run_sweep", request_body = Wish, responses(
    (status = 200, description = "What it saw and did", body = SweepReport),
))]
pub(super) async fn run(State(api): State<Shared>, Body(wish): Body<Wish>) -> Result<Json<SweepReport>, ApiError> {
    if wish.only.contains(&PartName::Observe) {
        let message = "a part is one of runs, idle, orphans, strays, deliveries; every pass observes";
        return Err(ApiError::new(ErrorCode::Invalid, message));
    }
    let request = Request { trigger: Trigger::Api, only: wish.only, dry_run: wish.dry_run };
    Ok(Json(api.worker.sweeps.run_now(request).await??))
}

/// Which past passes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Which {
    /// At most this many, 1 to 1000; 200 when nothing is said
    limit: Option<u32>,
    /// What `next` said
    #[param(value_type = Option<String>)]
    after: Option<Id>,
}

/// List past passes, newest first
#[utoipa::path(get, path = "/v1/sweeps", operation_id = "list_sweeps", params(Which), responses(
    (status = 200, description = "A page of them", body = Page<Sweep>),
))]
pub(super) async fn list(State(api): State<Shared>, Query(which): Query<Which>) -> Result<Json<Page<Sweep>>, ApiError> {
    let limit = page::size(which.limit)?;
    let found = api.tools().store.list_sweeps_after(which.after.as_ref(), limit + 1).await?;
    Ok(Json(Page::of(found, limit, |sweep| sweep.id.to_string())))
}
