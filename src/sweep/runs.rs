//! Part `runs`: mark runs that stopped sending heartbeats.
//!
//! A run is a target if and only if it is `running` and its last heartbeat, or its start, is `run_stale_after` old. Its
//! session stays open: a failed run is the worst moment to take the terminal away; `idle` takes it later.

use crate::policy::run_is_stale;
use crate::report::{Action, Item, PartName, PartReport};
use crate::session::Run;
use crate::store::StoreError;
use crate::sweep::act::stored;
use crate::sweep::pass::Pass;
use crate::timeline;
use crate::verdict::Verdict;

/// How many runs one pass marks at most; the next pass takes the rest.
const MOST: u32 = 1_000;

/// Runs the part.
pub(crate) async fn sweep(pass: &Pass) -> Result<PartReport, StoreError> {
    let mut report = PartReport::default();
    let policy = &pass.config().policy;
    let cutoff = pass.clock().now().minus(policy.run_stale_after.0);
    for run in pass.store().list_stale_runs(cutoff, MOST).await? {
        if !run_is_stale(&run, policy, pass.clock().now()) {
            report.keep(Verdict::RecentlyActive);
        } else if pass.is_paused().await? {
            report.keep(Verdict::Paused);
        } else if pass.request.dry_run {
            report.reap(item(&run, Action::WouldMark, format!("Would mark run {} stale.", run.id)));
        } else {
            mark(pass, &run, &mut report).await?;
        }
    }
    Ok(report)
}

async fn mark(pass: &Pass, run: &Run, report: &mut PartReport) -> Result<(), StoreError> {
    let now = pass.clock().now();
    let limit = pass.config().policy.run_stale_after.0;
    let session = pass.store().find_session(&run.session_id).await?;
    let entry = timeline::run_stale((session.as_ref(), run), limit, &pass.actor(), now);
    let item = item(run, Action::Marked, entry.message.clone());
    let stored = stored(pass, PartName::Runs, &item, now);
    if pass.store().mark_stale(run, now.minus(limit), &entry, Some(&stored)).await? {
        report.reap(item);
    } else {
        report.keep(Verdict::LostRace);
    }
    Ok(())
}

fn item(run: &Run, action: Action, message: String) -> Item {
    Item { session_id: run.session_id.clone(), verdict: Verdict::Stale, action, message }
}
