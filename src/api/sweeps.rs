//! Asking for a pass, and looking at past ones.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::api::access::Caller;
use crate::api::body::{Body, Query};
use crate::api::error::{ApiError, ErrorCode};
use crate::api::page::{self, Page};
use crate::api::state::{Api, Shared};
use crate::report::{PartName, PartReport, SweepReport, Trigger};
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

/// Make one pass now, after the one that is running; told is what it did to the caller's sessions, and all counts
#[utoipa::path(post, path = "/v1/sweeps", operation_id = "run_sweep", request_body = Wish, responses(
    (status = 200, description = "What it saw and did", body = SweepReport),
))]
pub(super) async fn run(
    State(api): State<Shared>,
    caller: Caller,
    Body(wish): Body<Wish>,
) -> Result<Json<SweepReport>, ApiError> {
    if wish.only.contains(&PartName::Observe) {
        let message = "a part is one of runs, idle, orphans, strays, deliveries; every pass observes";
        return Err(ApiError::new(ErrorCode::Invalid, message));
    }
    let request = Request { trigger: Trigger::Api, only: wish.only, dry_run: wish.dry_run };
    let mut report = api.worker.sweeps.run_now(request).await??;
    let seen = seen(&api, &caller, [&report]).await?;
    seen.narrow(&mut report);
    Ok(Json(report))
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

/// List past passes, newest first; what they tell of single sessions only of the caller's
#[utoipa::path(get, path = "/v1/sweeps", operation_id = "list_sweeps", params(Which), responses(
    (status = 200, description = "A page of them", body = Page<Sweep>),
))]
pub(super) async fn list(
    State(api): State<Shared>,
    caller: Caller,
    Query(which): Query<Which>,
) -> Result<Json<Page<Sweep>>, ApiError> {
    let limit = page::size(which.limit)?;
    let mut found = api.tools().store.list_sweeps_after(which.after.as_ref(), limit + 1).await?;
    if !caller.sees_all() {
        let read = |sweep: &Sweep| serde_json::from_value::<SweepReport>(sweep.report.clone()?).ok();
        let mut reports: Vec<Option<SweepReport>> = found.iter().map(read).collect();
        let seen = seen(&api, &caller, reports.iter().flatten()).await?;
        for (sweep, report) in found.iter_mut().zip(&mut reports) {
            // One that cannot be read is not shown: nobody can tell whose sessions it names.
            sweep.report = report.as_mut().and_then(|report| {
                seen.narrow(report);
                serde_json::to_value(&*report).ok()
            });
        }
    }
    Ok(Json(Page::of(found, limit, |sweep| sweep.id.to_string())))
}

/// The sessions in reports that a caller may see; none where it sees all.
struct Seen(Option<HashSet<Id>>);

/// Looks up which of the sessions that reports name are the caller's.
async fn seen<'a>(
    api: &Api,
    caller: &Caller,
    reports: impl IntoIterator<Item = &'a SweepReport>,
) -> Result<Seen, ApiError> {
    if caller.sees_all() {
        return Ok(Seen(None));
    }
    let parts = reports.into_iter().flat_map(|report| report.parts.values());
    let named = |part: &'a PartReport| {
        let errors = part.errors.iter().map(|error| &error.session_id);
        part.items.iter().map(|item| &item.session_id).chain(errors)
    };
    let ids: Vec<Id> = parts.flat_map(named).cloned().collect::<HashSet<Id>>().into_iter().collect();
    let found = api.tools().store.find_sessions(&ids).await?;
    Ok(Seen(Some(found.into_iter().filter(|row| caller.may_see(api, row)).map(|row| row.id).collect())))
}

impl Seen {
    /// Leaves out of a report what it tells of sessions of others; what it counts stays.
    fn narrow(&self, report: &mut SweepReport) {
        let Some(mine) = &self.0 else { return };
        for part in report.parts.values_mut() {
            part.items.retain(|item| mine.contains(&item.session_id));
            part.errors.retain(|error| mine.contains(&error.session_id));
        }
    }
}
