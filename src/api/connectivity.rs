//! Whether runners are there, and whether they hold the caller's sessions; asking is no use of any.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::access::Caller;
use crate::api::error::ApiError;
use crate::api::owned::Enrolled;
use crate::api::page::Page;
use crate::api::state::{Api, Shared};
use crate::connectivity::{Probe, RunnerConnectivity, SessionConnectivity};
use crate::session::Id;
use crate::store::{Placement, SessionFilter};
use crate::time::{Ms, UtcMs};

/// How a runner stands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Connectivity {
    /// The runner.
    runner_id: Id,
    /// Whether it is there.
    state: RunnerConnectivity,
    /// Why, when it is not connected; null when it is.
    why: Option<String>,
    /// When it was asked.
    checked_at: UtcMs,
    /// How long ago that was, in milliseconds.
    age_ms: Ms,
    /// The caller's open sessions there; everybody's for a token of scope `admin`.
    sessions: Vec<Presence>,
}

/// How a session stands with its runner.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Presence {
    /// The session.
    session_id: Id,
    /// Whether its runner holds its engine.
    state: SessionConnectivity,
}

/// Say whether a runner is there, and whether it holds the caller's sessions
#[utoipa::path(get, path = "/v1/runners/{id}/connectivity", operation_id = "runner_connectivity",
    params(("id" = Id, Path)), responses((status = 200, description = "How it answered seconds ago at the most", body = Connectivity)))]
pub(super) async fn one(
    State(api): State<Shared>,
    caller: Caller,
    Enrolled(runner): Enrolled,
) -> Result<Json<Connectivity>, ApiError> {
    let probe = api.probes.probe(api.tools(), &runner).await;
    // After the answer: what is open then, and was before the question, has to be in it.
    let sessions = sessions(&api, &caller, Some(runner.id)).await?;
    Ok(Json(connectivity(&api, &probe, &sessions)))
}

/// Say of every runner whether it is there, and whether it holds the caller's sessions
#[utoipa::path(get, path = "/v1/runners/connectivity", operation_id = "runners_connectivity",
    responses((status = 200, description = "All of them, in the order of their ids", body = Page<Connectivity>)))]
pub(super) async fn all(State(api): State<Shared>, caller: Caller) -> Result<Json<Page<Connectivity>>, ApiError> {
    let runners = api.tools().store.list_runners().await?;
    let probes = api.probes.probe_all(api.tools(), runners).await;
    let mut by_runner: HashMap<Id, Vec<Placement>> = HashMap::new();
    for session in sessions(&api, &caller, None).await? {
        by_runner.entry(session.runner_id.clone()).or_default().push(session);
    }
    let of = |probe: &Probe| by_runner.get(&probe.runner_id).map_or(&[][..], Vec::as_slice);
    let items = probes.iter().map(|probe| connectivity(&api, probe, of(probe))).collect();
    Ok(Json(Page { items, next: None }))
}

/// Reads the open sessions that the caller may see, on one runner or on all.
async fn sessions(api: &Api, caller: &Caller, runner: Option<Id>) -> Result<Vec<Placement>, ApiError> {
    let filter = SessionFilter { open_only: true, runner, ..caller.filter(api) };
    Ok(api.tools().store.list_placements(&filter).await?)
}

fn connectivity(api: &Api, probe: &Probe, sessions: &[Placement]) -> Connectivity {
    let presence =
        |session: &Placement| Presence { session_id: session.session_id.clone(), state: probe.presence(session) };
    Connectivity {
        runner_id: probe.runner_id.clone(),
        state: probe.state,
        why: probe.why.clone(),
        checked_at: probe.asked_at,
        age_ms: probe.age(api.tools()),
        sessions: sessions.iter().map(presence).collect(),
    }
}
