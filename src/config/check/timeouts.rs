//! Refuses limits of time that do not fit into each other: what waits must outlast what it waits for.

use crate::config::{Config, StopConfig};
use crate::time::{SECOND, compact};

/// Whoever waits for something waits at least as long as it may take. What is 0 is refused as such.
pub(super) fn timeouts(config: &Config, faults: &mut Vec<String>) {
    let limits = &config.limits;
    if limits.request_timeout < limits.connect_timeout && limits.request_timeout.0 > 0 {
        faults.push(format!(
            "limits.request_timeout ({}) may not be shorter than limits.connect_timeout ({}): a machine that is gone would look like one that is slow",
            compact(limits.request_timeout.0),
            compact(limits.connect_timeout.0),
        ));
    }
    let (wait, start) = (limits.ready_wait, config.policy.start_timeout);
    if start.0 > 0 && wait.0 > start.0 / 2 {
        faults.push(format!(
            "limits.ready_wait ({}) may be at most half of policy.start_timeout ({}): a start could be given up while it waits for its runner",
            compact(wait.0),
            compact(start.0),
        ));
    }
    let keys = GRACES.map(|name| format!("runner.{name}")).join(", ");
    faults.extend(ladder_fault(config, StopConfig::default(), &format!("{keys} together")));
}

/// The steps of the stop ladder by their keys.
const GRACES: [&str; 5] = ["interrupt_grace", "stdin_grace", "engine_term_grace", "tree_term_grace", "kill_limit"];

/// Whoever asks for a stop waits for its end, and a second for the answer.
pub(super) fn ladder_fault(config: &Config, own: StopConfig, what: &str) -> Option<String> {
    let (ladder, timeout) = (config.runner.ladder(own).longest(), config.limits.end_timeout);
    (timeout.0 > 0 && timeout.0 <= ladder.saturating_add(SECOND)).then(|| {
        format!(
            "limits.end_timeout ({}) must be longer than {what} ({}) and a second: every slow stop would be given up as stop_failed",
            compact(timeout.0),
            compact(ladder),
        )
    })
}
