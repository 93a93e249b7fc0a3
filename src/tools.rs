//! What every sweep and every verb works with: made once per process and handed down.

use std::sync::Arc;

use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::runner_client::RunnerApi;
use crate::session::Id;
use crate::store::Store;

/// The rows, the runners, the time, the limits and the counters of one process.
#[derive(Clone)]
pub struct Tools {
    /// The rows.
    pub store: Store,
    /// The runners.
    pub runners: Arc<dyn RunnerApi>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The settings.
    pub config: Arc<Config>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// This process, as evidence names it.
    pub worker_id: Id,
}
