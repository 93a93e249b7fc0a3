//! What the worker does beside answering requests: it sweeps on schedule, writes down activity and gives signs of life.
//!
//! `job.rs` is one pass as the schedule makes it, `watch.rs` says what changed from pass to pass; `books.rs` keeps the rows of use and of this process. Nothing here
//! knows HTTP.

mod books;
mod job;
mod watch;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use job::Trouble;

use crate::activity::Recorder;
use crate::report::SweepReport;
use crate::schedule::{BellError, Plan, Schedule, ScheduleHandle};
use crate::store::StoreError;
use crate::sweep::Request;
use crate::time::{SECOND, UtcMs};
use crate::tools::Tools;

/// What a pass came to.
pub type Swept = Result<SweepReport, StoreError>;

/// The passes as others see them and ask for them: one at a time in this process.
pub type Sweeps = ScheduleHandle<Request, Swept>;

/// How much later than its tick a pass may end before the schedule counts as behind.
const SLACK: i64 = 10 * SECOND;

/// How many ticks may go by without a pass.
const TICKS: usize = 3;

/// The worker as the API sees it. Cheap to clone.
#[derive(Clone)]
pub struct Worker {
    /// What it works with.
    pub tools: Tools,
    /// Writes down who uses what.
    pub recorder: Recorder,
    /// The passes.
    pub sweeps: Sweeps,
    /// What is wrong with the passes, if anything is.
    pub trouble: Trouble,
    plan: Plan,
    started_at: UtcMs,
}

/// The worker's own work, before it runs.
pub struct Work {
    worker: Worker,
    schedule: Schedule<Request, Swept>,
}

impl Worker {
    /// Makes a worker; it does nothing before [`Work::run`].
    ///
    /// # Errors
    /// Says in one sentence what is wrong with the schedule.
    pub fn new(tools: &Tools) -> Result<(Self, Work), String> {
        let plan = Plan::of(&tools.config().schedule)?;
        let (schedule, sweeps) = Schedule::new(plan.clone(), Arc::clone(&tools.clock));
        let worker = Self {
            tools: tools.clone(),
            recorder: Recorder::new(tools.clone()),
            sweeps,
            trouble: Trouble::default(),
            plan,
            started_at: tools.clock.now(),
        };
        tools.metrics.record_start(worker.started_at);
        Ok((worker.clone(), Work { worker, schedule }))
    }

    /// Returns how long ago the last pass ended, or the worker started, when that is longer than a few ticks of the
    /// schedule; none when the schedule is kept. A pass that is running has its own limit.
    #[must_use]
    pub fn behind_by(&self) -> Option<i64> {
        let now = self.tools.clock.now();
        let status = self.sweeps.status();
        if status.running_since.is_some_and(|since| now.since(since) <= self.plan.pass_limit.0) {
            return None;
        }
        let last = status.last_finished_at.unwrap_or(self.started_at);
        let latest = self.plan.expression.next_n(last, TICKS).last()?.plus(SLACK);
        (now > latest).then(|| now.since(last))
    }

    /// Puts what the schedule counts into the metrics.
    pub fn refresh_metrics(&self) {
        let status = self.sweeps.status();
        let last = status.last_finished_at.unwrap_or(self.started_at);
        self.tools.metrics.record_schedule(status.ticks_skipped, self.tools.clock.now().since(last));
    }
}

impl Work {
    /// Works until `stop`; then begins no further pass and no further stop, and waits for those in flight within
    /// `schedule.shutdown_limit`. Activity is written until `quiet` is cancelled, which is to happen once nobody can
    /// touch any more, and then completely.
    ///
    /// # Errors
    /// When the scheduler cannot be started; `stop` is cancelled then.
    pub async fn run(self, stop: CancellationToken, quiet: CancellationToken) -> Result<(), BellError> {
        let Self { worker, schedule } = self;
        let job = job::job(&worker);
        let sweeping = async {
            let swept = schedule.run(job, stop.clone()).await;
            stop.cancel();
            swept
        };
        let (swept, ()) = tokio::join!(sweeping, books::keep(&worker, &quiet));
        swept
    }
}
