//! What a session's whole process tree costs.

use crate::runner::process;
use crate::time::Ms;

/// Memory and processor time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    /// Resident memory, in bytes; what processes share counts for each.
    pub(crate) rss_bytes: i64,
    /// Processor time since the start, in milliseconds.
    pub(crate) cpu_ms: Ms,
}

/// Measures everything below the shim.
#[must_use]
pub(crate) fn below(shim: i32) -> Usage {
    let tree = process::descendants(shim);
    let rss: u64 = tree.iter().map(|it| it.rss_bytes).sum();
    let ticks: u64 = tree.iter().map(|it| it.cpu_ticks).sum();
    let cpu = ticks.saturating_mul(1_000) / procfs::ticks_per_second().max(1);
    Usage { rss_bytes: i64::try_from(rss).unwrap_or(i64::MAX), cpu_ms: Ms::try_from(cpu).unwrap_or(Ms::MAX) }
}
