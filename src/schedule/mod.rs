//! When sweeps run: a cron bell, and one worker that hears it.
//!
//! The bell (tokio-cron-scheduler) only rings. One worker task waits for the bell, for a request, for the end of the
//! process, and for a timer of its own that covers a bell gone silent: the scheduler waits in vain when the wall clock is
//! set back, and may die. Whatever calls it, a pass runs as a task of its own, one at a time; a tick that comes meanwhile
//! is counted and dropped, since a pass reads the state anew and the next one does what this one missed.
//!
//! The bell rings in UTC, since the scheduler would freeze a zone into the offset of its first day. In UTC each ring is
//! a tick. In another zone it rings every minute, and the worker asks the [`Expression`] whether a tick lies between its
//! last look and now: right across every change of the clocks, and a ring that came early is made good by the next.
//!
//! What a pass does is the caller's business.

mod bell;
mod ear;
mod status;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::config::ScheduleConfig;
use crate::cron::Expression;
use crate::time::Span;

pub use bell::BellError;
pub use status::{Outcome, ScheduleStatus};

/// How many requests wait before a further one has to wait outside.
const WAITING: usize = 16;

/// When passes run, and how long they may take.
#[derive(Debug, Clone)]
pub struct Plan {
    /// When.
    pub expression: Expression,
    /// A pass that takes longer is abandoned.
    pub pass_limit: Span,
    /// How long a stop waits for the pass that is running.
    pub shutdown_limit: Span,
}

impl Plan {
    /// Reads the plan from the settings.
    ///
    /// # Errors
    /// Says in one sentence what is wrong with the expression or its zone.
    pub fn of(config: &ScheduleConfig) -> Result<Self, String> {
        let expression = Expression::parse(&config.sweep, &config.timezone)?;
        Ok(Self { expression, pass_limit: config.pass_limit, shutdown_limit: config.shutdown_limit })
    }
}

/// What calls for a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger<R> {
    /// The schedule.
    Tick,
    /// Somebody, with what they ask for.
    Request(R),
}

/// Why a requested pass has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The worker is stopping, or has stopped.
    #[error("the worker is stopping")]
    Stopped,
    /// The pass panicked.
    #[error("the pass failed unexpectedly: {0}")]
    Panicked(String),
    /// The pass took longer than it may.
    #[error("the pass took longer than schedule.pass_limit and was abandoned; the next one finishes what it began")]
    Overran,
}

/// A request, and whom to answer.
struct Request<R, T> {
    what: R,
    answer: oneshot::Sender<Result<T, RunError>>,
}

/// The schedule, before it runs. `R` is what a request asks for, `T` what a pass returns.
pub struct Schedule<R, T> {
    plan: Plan,
    clock: Arc<dyn Clock>,
    requests: mpsc::Receiver<Request<R, T>>,
    status: watch::Sender<ScheduleStatus>,
}

impl<R, T> Schedule<R, T> {
    /// Makes a schedule, and the handle by which others see it and ask for passes.
    #[must_use]
    pub fn new(plan: Plan, clock: Arc<dyn Clock>) -> (Self, ScheduleHandle<R, T>) {
        let (sender, requests) = mpsc::channel(WAITING);
        let (status, seen) = watch::channel(ScheduleStatus::default());
        (Self { plan, clock, requests, status }, ScheduleHandle { requests: sender, status: seen })
    }
}

/// The schedule as others see it.
pub struct ScheduleHandle<R, T> {
    requests: mpsc::Sender<Request<R, T>>,
    status: watch::Receiver<ScheduleStatus>,
}

impl<R, T> Clone for ScheduleHandle<R, T> {
    fn clone(&self) -> Self {
        Self { requests: self.requests.clone(), status: self.status.clone() }
    }
}

impl<R, T> ScheduleHandle<R, T> {
    /// Asks for a pass of its own and waits for its result.
    ///
    /// While another pass runs it waits for its turn; requests are served in their order. A request whose asker went away
    /// before its turn is dropped.
    ///
    /// # Errors
    /// When the worker stops first, or the pass panics or takes too long.
    pub async fn run_now(&self, what: R) -> Result<T, RunError> {
        let (answer, result) = oneshot::channel();
        self.requests.send(Request { what, answer }).await.map_err(|_| RunError::Stopped)?;
        result.await.unwrap_or(Err(RunError::Stopped))
    }

    /// Returns what the schedule has done so far.
    #[must_use]
    pub fn status(&self) -> ScheduleStatus {
        self.status.borrow().clone()
    }

    /// Returns the status as a channel, for who waits for a change of it.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<ScheduleStatus> {
        self.status.clone()
    }
}
