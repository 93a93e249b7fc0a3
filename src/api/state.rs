//! What every handler works with.

use std::sync::Arc;

use axum::body::Bytes;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::feed::Listeners;
use crate::attach::Seats;
use crate::connectivity::Probes;
use crate::network::Names;
use crate::tools::Tools;
use crate::worker::Worker;

/// The state of the API, one per worker.
pub(super) struct Api {
    /// The worker behind it.
    pub(super) worker: Worker,
    /// Whose the rows without an owner are.
    pub(super) owner: String,
    /// The names under which it may be called.
    pub(super) names: Names,
    /// The requests that are being worked on, so that a clean stop can wait for them.
    pub(super) requests: TaskTracker,
    /// What runners answered to whoever wants to know whether they are there.
    pub(super) probes: Probes,
    /// Whoever listens to events.
    pub(super) listeners: Listeners,
    /// How far clients that follow sessions were served.
    pub(super) seats: Seats,
    /// Cancelled when the worker stops: what has no end of its own ends then.
    pub(super) stopping: CancellationToken,
    /// The document at `/openapi.json`.
    pub(super) document: Bytes,
}

/// As handlers get it.
pub(super) type Shared = Arc<Api>;

impl Api {
    pub(super) fn tools(&self) -> &Tools {
        &self.worker.tools
    }
}
