//! The cron bell: tokio-cron-scheduler rings, and does nothing else.
//!
//! The scheduler would start a job while the last one still runs, goes deaf for a job whose start panics, neither awaits
//! nor cancels anything at its end, and leaves tasks behind each time it is built. So its job is one call that cannot
//! panic or wait, everything that can go wrong happens in the worker, and there is one scheduler per process.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};

/// How long hanging the bell may take; it is a matter of microseconds.
const LIMIT: Duration = Duration::from_secs(10);

/// The bell could not be hung up.
#[derive(Debug, thiserror::Error)]
pub enum BellError {
    /// The scheduler refused.
    #[error("the schedule cannot be started: {0}")]
    Refused(#[from] JobSchedulerError),
    /// The scheduler never answered.
    #[error("the schedule cannot be started: the scheduler does not answer")]
    Silent,
}

/// A running scheduler that rings until it is taken down.
pub(super) struct Bell(JobScheduler);

impl Bell {
    /// Rings `bell` whenever `expression`, six fields in UTC, is due. Rings that nobody heard yet are one.
    pub(super) async fn hang(expression: &str, bell: Arc<Notify>) -> Result<Self, BellError> {
        let job = Job::new(expression, move |_, _| bell.notify_one())?;
        let start = async {
            let mut scheduler = JobScheduler::new().await?;
            scheduler.init().await?;
            scheduler.add(job).await?;
            scheduler.start().await?;
            Ok(Self(scheduler))
        };
        tokio::time::timeout(LIMIT, start).await.unwrap_or(Err(BellError::Silent))
    }

    /// Stops the ringing.
    pub(super) async fn take_down(mut self) {
        if let Err(error) = self.0.shutdown().await {
            tracing::warn!(%error, "the scheduler did not stop; it ends with the process");
        }
    }
}
