//! What every sweep and every verb works with: made once per process and handed down.

use std::sync::{Arc, PoisonError, RwLock};

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
    pub settings: CurrentConfig,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// This process, as evidence names it.
    pub worker_id: Id,
}

impl Tools {
    /// Returns the settings that hold now. Whoever decides something reads them once and decides all of it by them.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.settings.now()
    }
}

/// The settings of a process, which may be replaced as a whole while it runs. Cheap to clone; all clones see the same.
#[derive(Debug, Clone)]
pub struct CurrentConfig(Arc<RwLock<Arc<Config>>>);

impl CurrentConfig {
    /// Begins with these.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(config))))
    }

    /// Returns those that hold now.
    #[must_use]
    pub fn now(&self) -> Arc<Config> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets others hold from now on.
    pub fn replace(&self, config: Config) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }
}
