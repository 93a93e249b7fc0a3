//! One pass over all sessions: observe the runners, then `runs`, `idle`, `orphans`, `strays`, `deliveries`, in this order.
//!
//! A pass takes no input but what it is asked for: it reads the state, decides, acts. So a missed, repeated or concurrent
//! pass is harmless, and "run now" is the tick of the schedule. One failing session never ends a pass, and nothing is
//! retried inside one: the next pass is the retry.
//!
//! - `observe.rs` asks the runners; `settle.rs` finishes what their answers settle
//! - `runs.rs`, `idle.rs` with `reap.rs`, `orphans.rs`, `strays.rs`: the parts, one file each, listed in [`PARTS`]
//! - `deliveries.rs`: the last part, which hands events to webhooks; `warn.rs`: telling before an idle reap
//! - `act.rs`: asking for a stop and closing a row, in the order that survives a crash
//! - `explain.rs`: the same decisions, told about one session
//! - `backoff.rs`, `host.rs`: when to look again, and what this host's clocks are worth
//! - `prune.rs`: forgetting what is old enough

mod act;
mod backoff;
mod deliveries;
mod explain;
mod host;
mod idle;
mod observe;
mod orphans;
mod pass;
mod prune;
mod reap;
mod runs;
mod settle;
mod strays;
mod warn;

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use explain::{Explanation, explain};
pub use pass::Request;

use crate::report::{PartName, PartReport, SweepReport};
use crate::session::Id;
use crate::store::{NewSweep, StoreError};
use crate::sweep::host::HostClock;
use crate::sweep::pass::Pass;
use crate::time::{Ms, SECOND};
use crate::tools::Tools;

/// A part of a pass.
type Part = for<'a> fn(&'a Pass) -> BoxFuture<'a, Result<PartReport, StoreError>>;

/// The parts in their order. A new sweep is one file and one line here.
const PARTS: [(PartName, Part); 5] = [
    (PartName::Runs, |pass| Box::pin(runs::sweep(pass))),
    (PartName::Idle, |pass| Box::pin(idle::sweep(pass))),
    (PartName::Orphans, |pass| Box::pin(orphans::sweep(pass))),
    (PartName::Strays, |pass| Box::pin(strays::sweep(pass))),
    (PartName::Deliveries, |pass| Box::pin(deliveries::sweep(pass))),
];

/// A process whose last sign of life is older than this ended without saying so; it gives one every ten seconds.
pub const SILENT: Ms = 30 * SECOND;

/// The setting under which the host's readings are kept from pass to pass.
const HOST: &str = "host";

/// Makes one pass. Once `cancel` is cancelled it begins no new stop and ends soon.
///
/// # Errors
/// When the store cannot be read or written; what was done until then stands, and the next pass goes on from there.
pub async fn sweep(tools: &Tools, request: Request, cancel: CancellationToken) -> Result<SweepReport, StoreError> {
    let (started_at, began) = (tools.clock.now(), tools.clock.awake());
    let mut pass = prepare(tools, request, cancel).await?;
    let paused = pass.is_paused().await?;
    pass.posts = observe::observe_all(&pass, pass.store().list_runners().await?).await?;

    let mut parts: BTreeMap<_, _> = PartName::ALL.iter().map(|name| (*name, PartReport::default())).collect();
    parts.insert(PartName::Observe, settle::settle(&pass).await?);
    for (name, part) in PARTS {
        if pass.request.wants(name) {
            parts.insert(name, part(&pass).await?);
        }
    }
    let report = SweepReport {
        sweep_id: pass.id.clone(),
        trigger: pass.request.trigger,
        dry_run: pass.request.dry_run,
        started_at,
        elapsed_ms: tools.clock.awake() - began,
        paused,
        runners: observe::runner_reports(pass.posts.values()).await,
        parts,
    };
    finish(&pass, &report).await?;
    act::forget_all(&pass).await;
    prune::prune(&pass).await;
    Ok(report)
}

/// Reads what this pass must know of the last one, and makes up for a crash. A dry run writes nothing of it.
///
/// A store that is not in its place, or that cannot be written now, ends the pass here, before it has stopped anything.
async fn prepare(tools: &Tools, request: Request, cancel: CancellationToken) -> Result<Pass, StoreError> {
    tools.store.check_in_place().await?;
    let config = tools.config();
    let last = tools.store.setting(HOST).await?.and_then(|text| serde_json::from_str(&text).ok());
    let host = HostClock::read(&*tools.clock, last.as_ref());
    if !request.dry_run {
        let throttle = config.policy.activity_throttle.0;
        tools.store.forgive_crashes(tools.clock.now(), SILENT, throttle).await?;
        let readings = serde_json::to_string(&host.readings).unwrap_or_default();
        // What this pass does must go on record, so a write has to reach the file before the first stop.
        tools.store.set_setting(HOST, &readings).await?;
    }
    let stops = Semaphore::new(config.limits.stops_at_once as usize);
    Ok(Pass {
        tools: tools.clone(),
        config,
        id: Id::new(),
        request,
        cancel,
        posts: BTreeMap::new(),
        began: host,
        stops,
        settled: Mutex::default(),
    })
}

/// Keeps the report. A dry run leaves no trace.
async fn finish(pass: &Pass, report: &SweepReport) -> Result<(), StoreError> {
    if pass.request.dry_run {
        return Ok(());
    }
    pass.tools.metrics.record_sweep(report);
    let sweep = NewSweep {
        id: report.sweep_id.clone(),
        trigger: report.trigger.to_string(),
        started_at: report.started_at,
        eventful: report.is_eventful(),
        report: serde_json::to_string(report).unwrap_or_default(),
    };
    pass.store().save_sweep(sweep, pass.clock().now()).await
}
