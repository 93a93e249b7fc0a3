//! What the schedule has done so far, for `/readyz`, metrics and tests.

use serde::Serialize;

use crate::time::UtcMs;
use crate::words::words;

words! {
    /// How a pass ended.
    Outcome {
        /// It came to its own end.
        Finished = "finished",
        /// It panicked; the next tick tries again.
        Panicked = "panicked",
        /// It took longer than `schedule.pass_limit` and was abandoned.
        Overran = "overran",
        /// The worker stopped before it ended.
        Stopped = "stopped",
    }
}

/// Counts since the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ScheduleStatus {
    /// Since when a pass is running; none when none is.
    pub running_since: Option<UtcMs>,
    /// How many passes ended, whatever came of them.
    pub passes: u64,
    /// How many ticks came while a pass was running.
    pub ticks_skipped: u64,
    /// How many passes panicked.
    pub panicked: u64,
    /// How many passes were abandoned since they took too long.
    pub overran: u64,
    /// How often the bell stayed silent, so that the worker went by its own timer.
    pub silences: u64,
    /// When the last pass ended.
    pub last_finished_at: Option<UtcMs>,
    /// How the last pass ended.
    pub last_outcome: Option<Outcome>,
}

impl ScheduleStatus {
    /// Takes note of the end of a pass.
    pub(super) fn finish(&mut self, outcome: Outcome, at: UtcMs) {
        self.running_since = None;
        self.passes += 1;
        self.panicked += u64::from(outcome == Outcome::Panicked);
        self.overran += u64::from(outcome == Outcome::Overran);
        self.last_finished_at = Some(at);
        self.last_outcome = Some(outcome);
    }
}
