//! The one worker task: waits for what calls for a pass, runs it, and outlives whatever happens in it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, timer};
use crate::schedule::bell::{Bell, BellError};
use crate::schedule::ear::{Ear, Heard};
use crate::schedule::{Outcome, Plan, Request, RunError, Schedule, ScheduleStatus, Trigger};
use crate::telemetry::field;

/// How long an aborted pass has to let go, once the worker stops.
const LETTING_GO: Duration = Duration::from_secs(1);

impl<R: Send + 'static, T: Send + 'static> Schedule<R, T> {
    /// Runs `job` at each tick and for each request, until `cancel`; the first time at the first tick.
    ///
    /// The job gets a token that is cancelled when it should begin nothing new: the worker stops, or its time is over. On
    /// `cancel` no further pass begins, and the running one has `shutdown_limit` to end before it is aborted.
    ///
    /// # Errors
    /// When the scheduler cannot be started; nothing has run then.
    pub async fn run<F, Fut>(self, job: F, cancel: CancellationToken) -> Result<(), BellError>
    where
        F: Fn(Trigger<R>, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let rings = Arc::new(Notify::new());
        // The ear is there before the bell hangs, so that no ring lies before its time.
        let ear = self.listen(Arc::clone(&rings));
        let bell = Bell::hang(&self.plan.expression.bell(), rings).await?;
        self.work(ear, job, cancel).await;
        bell.take_down().await;
        Ok(())
    }

    /// Makes an ear for `rings`.
    pub(super) fn listen(&self, rings: Arc<Notify>) -> Ear {
        Ear::new(rings, self.plan.expression.clone(), Arc::clone(&self.clock))
    }

    /// Works with whatever rings, until `cancel`; returns at most `shutdown_limit` and a second later.
    pub(super) async fn work<F, Fut>(self, ear: Ear, job: F, cancel: CancellationToken)
    where
        F: Fn(Trigger<R>, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let Self { plan, clock, requests, status } = self;
        let grace = plan.shutdown_limit.as_std() + LETTING_GO;
        let overdue = async {
            cancel.cancelled().await;
            sleep(grace).await;
        };
        let worker = Worker { plan, clock, status, ear, cancel: cancel.clone() };
        tokio::select! {
            () = worker.serve(requests, Arc::new(job)) => {}
            () = overdue => tracing::error!("a pass does not let go; it ends with the process"),
        }
    }
}

/// A [`Schedule`] at work.
struct Worker {
    plan: Plan,
    clock: Arc<dyn Clock>,
    status: watch::Sender<ScheduleStatus>,
    ear: Ear,
    cancel: CancellationToken,
}

impl Worker {
    /// Serves ticks and requests, one at a time.
    async fn serve<R, T, F, Fut>(mut self, mut requests: mpsc::Receiver<Request<R, T>>, job: Arc<F>)
    where
        R: Send + 'static,
        T: Send + 'static,
        F: Fn(Trigger<R>, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        loop {
            // Ticks before requests: however many requests there are, the schedule is kept.
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return,
                heard = self.ear.tick() => {
                    self.note(heard);
                    // Nobody waits for the result of a tick, and its failures are logged where they happen.
                    drop(self.pass(&job, Trigger::Tick).await);
                    self.ear.trust();
                }
                Some(Request { what, answer }) = requests.recv() => self.answer(&job, what, answer).await,
            }
        }
    }

    /// Makes a requested pass, unless its asker went away before its turn.
    async fn answer<R, T, F, Fut>(&mut self, job: &Arc<F>, what: R, answer: oneshot::Sender<Result<T, RunError>>)
    where
        R: Send + 'static,
        T: Send + 'static,
        F: Fn(Trigger<R>, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        if !answer.is_closed() {
            let result = self.pass(job, Trigger::Request(what)).await;
            // An asker that went away meanwhile has no use for the answer.
            drop(answer.send(result));
        }
    }

    /// Makes one pass, from its start to the end of its task.
    async fn pass<R, T, F, Fut>(&mut self, job: &Arc<F>, trigger: Trigger<R>) -> Result<T, RunError>
    where
        R: Send + 'static,
        T: Send + 'static,
        F: Fn(Trigger<R>, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let began = self.clock.now();
        self.status.send_modify(|status| status.running_since = Some(began));
        let token = self.cancel.child_token();
        // The job's own first step runs inside of the task too, so that a panic there is the task's.
        let task = tokio::spawn({
            let (job, token) = (Arc::clone(job), token.clone());
            async move { job(trigger, token).await }
        });
        let (joined, aborted) = self.watch_over(task, &token).await;
        let (outcome, result) = read(joined, aborted);
        let now = self.clock.now();
        self.status.send_modify(|status| status.finish(outcome, now));
        if let Err(error) = &result {
            tracing::error!({ field::OUTCOME } = %outcome, { field::ELAPSED_MS } = now.since(began), "{error}");
        }
        result
    }

    /// Waits for the end of a pass, counts the ticks that come meanwhile, and aborts it when its time is over.
    ///
    /// Returns only when the task has ended, so that there are never two; and why it was aborted, if it was.
    async fn watch_over<T>(
        &mut self,
        mut task: JoinHandle<T>,
        token: &CancellationToken,
    ) -> (Result<T, JoinError>, Option<Outcome>) {
        let (mut stopping, mut aborted) = (false, None);
        let mut deadline = pin!(sleep(self.plan.pass_limit.as_std()));
        loop {
            tokio::select! {
                biased;
                joined = &mut task => return (joined, aborted),
                () = self.cancel.cancelled(), if !stopping => {
                    stopping = true;
                    let latest = timer() + self.plan.shutdown_limit.as_std();
                    let sooner = deadline.deadline().min(latest);
                    deadline.as_mut().reset(sooner);
                }
                () = deadline.as_mut(), if aborted.is_none() => {
                    aborted = Some(if stopping { Outcome::Stopped } else { Outcome::Overran });
                    token.cancel();
                    task.abort();
                }
                () = self.ear.ring() => self.skip(),
            }
        }
    }

    fn note(&self, heard: Heard) {
        if heard == Heard::Silence {
            tracing::warn!("the schedule's bell stayed silent for two ticks: sweeping by the worker's own timer");
            self.status.send_modify(|status| status.silences += 1);
        }
    }

    fn skip(&self) {
        self.status.send_modify(|status| status.ticks_skipped += 1);
        let skipped = self.status.borrow().ticks_skipped;
        tracing::info!({ field::COUNT } = skipped, "a tick came while a pass was running; it is left out");
    }
}

/// Reads what became of a task.
fn read<T>(joined: Result<T, JoinError>, aborted: Option<Outcome>) -> (Outcome, Result<T, RunError>) {
    match (joined.map_err(JoinError::try_into_panic), aborted) {
        (Ok(result), _) => (Outcome::Finished, Ok(result)),
        (Err(Ok(panic)), _) => (Outcome::Panicked, Err(RunError::Panicked(message_of(&*panic)))),
        (Err(Err(_)), Some(Outcome::Overran)) => (Outcome::Overran, Err(RunError::Overran)),
        // Aborted by a stop, or by the end of the runtime.
        (Err(Err(_)), _) => (Outcome::Stopped, Err(RunError::Stopped)),
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}
