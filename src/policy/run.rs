//! Has this run stopped sending heartbeats?

use crate::config::PolicyConfig;
use crate::session::{Run, RunStatus};
use crate::time::UtcMs;

/// Decides whether a run is stale: still `running`, and without a heartbeat for `run_stale_after`.
#[must_use]
pub fn run_is_stale(run: &Run, policy: &PolicyConfig, now: UtcMs) -> bool {
    let last = run.heartbeat_at.unwrap_or(run.started_at);
    run.status == RunStatus::Running && now.since(last) >= policy.run_stale_after.0
}
