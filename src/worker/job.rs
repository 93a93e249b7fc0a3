//! One pass as the schedule makes it: sweep, then say in the log what came of it.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::report::{SweepReport, Totals, Trigger};
use crate::schedule::Trigger as Call;
use crate::sweep::{self, Request};
use crate::telemetry::field;
use crate::tools::Tools;
use crate::worker::watch::Watch;
use crate::worker::{Swept, Worker};

/// Why the last pass failed, if it did; so that a failure that lasts is told once and not at every tick.
#[derive(Clone, Default)]
pub struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    /// Returns what is wrong, in one sentence.
    #[must_use]
    pub fn now(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets what is wrong now; returns what was before.
    fn set(&self, now: Option<String>) -> Option<String> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), now)
    }
}

/// Makes the schedule's job.
pub(super) fn job(
    worker: &Worker,
) -> impl Fn(Call<Request>, CancellationToken) -> BoxFuture<'static, Swept> + Send + Sync + 'static {
    let (tools, trouble) = (worker.tools.clone(), worker.trouble.clone());
    let watch = Arc::new(Watch::default());
    move |call, cancel| {
        let request = match call {
            Call::Tick => Request::all(Trigger::Schedule),
            Call::Request(request) => request,
        };
        let (tools, trouble, watch) = (tools.clone(), trouble.clone(), Arc::clone(&watch));
        Box::pin(async move {
            let swept = pass(&tools, &trouble, request, cancel).await;
            swept.iter().for_each(|report| watch.look(report));
            swept
        })
    }
}

/// Makes one pass and logs what came of it. A pass that fails harms nothing: the next one goes on from there.
async fn pass(tools: &Tools, trouble: &Trouble, request: Request, cancel: CancellationToken) -> Swept {
    let swept = sweep::sweep(tools, request, cancel).await;
    match &swept {
        Ok(report) => {
            if trouble.set(None).is_some() {
                tracing::info!("passes work again");
            }
            tell(report);
        }
        Err(error) => {
            let text = error.to_string();
            if trouble.set(Some(text.clone())).as_ref() != Some(&text) {
                tracing::error!({ field::ERROR } = text, "a pass failed; the next one goes on from there");
            }
        }
    }
    swept
}

/// Logs one line about a pass; one without any event is worth a line only to who looks for it.
fn tell(report: &SweepReport) {
    let Totals { settled, reaped, kept, errors } = report.totals();
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                { field::SWEEP_ID } = %report.sweep_id,
                { field::TRIGGER } = %report.trigger,
                dry_run = report.dry_run,
                paused = report.paused,
                settled,
                reaped,
                kept,
                errors,
                { field::ELAPSED_MS } = report.elapsed_ms,
                "swept"
            )
        };
    }
    if report.has_errors() {
        line!(warn);
    } else if report.is_eventful() && !report.dry_run {
        line!(info);
    } else {
        line!(debug);
    }
}
