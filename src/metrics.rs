//! What the worker counts: one registry per worker, no global state, so that each test has its own.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::report::{Action, RunnerState, SweepReport};
use crate::time::{Ms, UtcMs};

/// The labels of a verdict count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    part: &'static str,
    verdict: &'static str,
}

/// The label of a runner.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunnerLabels {
    runner_id: String,
}

/// Counts, gauges and histograms of one worker.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    verdicts: Family<VerdictLabels, Counter>,
    errors: Counter,
    runners_live: Family<RunnerLabels, Gauge>,
    paused: Gauge,
    sweeps: Counter,
    finished_at: Gauge<f64, AtomicU64>,
    sweep_age: Gauge<f64, AtomicU64>,
    sweep_seconds: Histogram,
    stop_seconds: Histogram,
    skipped: Counter,
    touch_writes: Counter,
    touched_rows: Counter,
    started_at: Gauge<f64, AtomicU64>,
    settings_refused: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let buckets = || exponential_buckets(0.005, 2.5, 12);
        let mut metrics = Self {
            registry: Registry::with_prefix("sexton"),
            verdicts: Family::default(),
            errors: Counter::default(),
            runners_live: Family::default(),
            paused: Gauge::default(),
            sweeps: Counter::default(),
            finished_at: Gauge::default(),
            sweep_age: Gauge::default(),
            sweep_seconds: Histogram::new(buckets()),
            stop_seconds: Histogram::new(buckets()),
            skipped: Counter::default(),
            touch_writes: Counter::default(),
            touched_rows: Counter::default(),
            started_at: Gauge::default(),
            settings_refused: Gauge::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("verdicts", "Sessions by part and verdict, over all passes", self.verdicts.clone());
        registry.register("sweep_errors", "Sessions that a pass could not handle", self.errors.clone());
        registry.register("sweeps", "Finished passes", self.sweeps.clone());
        registry.register("runner_live", "Whether a runner was live in the last pass", self.runners_live.clone());
        registry.register("paused", "Whether the reaper was paused in the last pass", self.paused.clone());
        registry.register_with_unit(
            "last_sweep_timestamp",
            "When the last pass finished, since 1970; 0 before the first",
            Unit::Seconds,
            self.finished_at.clone(),
        );
        registry.register_with_unit(
            "sweep_age",
            "How long ago the last pass ended, whatever came of it, or the worker started",
            Unit::Seconds,
            self.sweep_age.clone(),
        );
        registry.register_with_unit(
            "sweep_duration",
            "How long a pass took",
            Unit::Seconds,
            self.sweep_seconds.clone(),
        );
        registry.register_with_unit(
            "stop_latency",
            "How long a runner took to answer a request to stop an engine",
            Unit::Seconds,
            self.stop_seconds.clone(),
        );
        registry.register("ticks_skipped", "Ticks that came while a pass ran", self.skipped.clone());
        registry.register("activity_writes", "Transactions that wrote activity", self.touch_writes.clone());
        registry.register("activity_rows", "Sessions whose activity they wrote", self.touched_rows.clone());
        registry.register_with_unit(
            "start_time",
            "When the worker started, since 1970",
            Unit::Seconds,
            self.started_at.clone(),
        );
        registry.register(
            "settings_refused",
            "Whether the settings that were read last cannot be used, so that older ones hold",
            self.settings_refused.clone(),
        );
    }

    /// Takes note of whether settings that were read anew can be used.
    pub fn record_reload(&self, usable: bool) {
        self.settings_refused.set(i64::from(!usable));
    }

    /// Takes note of the worker's start.
    pub fn record_start(&self, now: UtcMs) {
        self.started_at.set(seconds(now.0));
    }

    /// Takes note of a finished pass.
    pub fn record_sweep(&self, report: &SweepReport) {
        for runner in &report.runners {
            let labels = RunnerLabels { runner_id: runner.runner_id.to_string() };
            self.runners_live.get_or_create(&labels).set(i64::from(runner.state == RunnerState::Live));
        }
        self.paused.set(i64::from(report.paused));
        for (part, counts) in &report.parts {
            for item in counts.items.iter().filter(|item| acted(item.action)) {
                self.count(part.as_str(), item.verdict.as_str(), 1);
            }
            for (verdict, count) in &counts.kept {
                self.count(part.as_str(), verdict.as_str(), *count);
            }
            self.errors.inc_by(counts.errors.len() as u64);
        }
        self.sweeps.inc();
        self.sweep_seconds.observe(seconds(report.elapsed_ms));
        self.finished_at.set(seconds(report.started_at.plus(report.elapsed_ms).0));
    }

    /// Takes note of how long a runner took to answer a stop.
    pub fn record_stop(&self, took: Ms) {
        self.stop_seconds.observe(seconds(took));
    }

    /// Takes note of how many ticks were skipped since the start, and how long ago the last pass ended.
    pub fn record_schedule(&self, skipped: u64, age: Ms) {
        self.skipped.inner().fetch_max(skipped, Ordering::Relaxed);
        self.sweep_age.set(seconds(age));
    }

    /// Takes note of a transaction that wrote the activity of so many sessions.
    pub fn record_touches(&self, sessions: usize) {
        self.touch_writes.inc();
        self.touched_rows.inc_by(sessions as u64);
    }

    fn count(&self, part: &'static str, verdict: &'static str, by: u64) {
        self.verdicts.get_or_create(&VerdictLabels { part, verdict }).inc_by(by);
    }

    /// Writes everything in the `OpenMetrics` text format.
    ///
    /// # Errors
    /// Only when formatting fails, which writing to a string does not.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Returns whether an action counts as one of those that the part handled, so that counts add up.
fn acted(action: Action) -> bool {
    matches!(action, Action::Stopped | Action::Closed | Action::Marked)
}

#[expect(clippy::cast_precision_loss, reason = "a gauge holds a float; milliseconds since 1970 fit it exactly")]
fn seconds(ms: Ms) -> f64 {
    ms as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::{Item, PartName, PartReport, Trigger};
    use crate::session::Id;
    use crate::verdict::Verdict;

    fn report() -> SweepReport {
        let item = |verdict, action| Item { session_id: Id::new(), verdict, action, message: String::new() };
        let mut idle = PartReport::default();
        idle.reap(item(Verdict::Idle, Action::Stopped));
        idle.keep_many(Verdict::Generating, 3);
        idle.keep_item(item(Verdict::Refused, Action::Kept));
        idle.fail(Id::new(), Verdict::StopFailed, "no answer".to_owned());
        let mut runs = PartReport::default();
        runs.reap(item(Verdict::Stale, Action::Marked));
        SweepReport {
            sweep_id: Id::new(),
            trigger: Trigger::Schedule,
            dry_run: false,
            started_at: UtcMs(1_000_000),
            elapsed_ms: 1_500,
            paused: false,
            runners: Vec::new(),
            parts: BTreeMap::from([(PartName::Idle, idle), (PartName::Runs, runs)]),
        }
    }

    #[test]
    fn what_is_counted_reads_as_openmetrics() {
        let metrics = Metrics::default();
        metrics.record_start(UtcMs(900_000));
        metrics.record_sweep(&report());
        metrics.record_stop(20);
        metrics.record_schedule(2, 3_500);
        metrics.record_schedule(2, 4_500);
        metrics.record_touches(167);
        let text = metrics.encode().unwrap();
        for line in [
            "sexton_verdicts_total{part=\"idle\",verdict=\"idle\"} 1",
            "sexton_verdicts_total{part=\"idle\",verdict=\"generating\"} 3",
            "sexton_verdicts_total{part=\"idle\",verdict=\"refused\"} 1",
            "sexton_verdicts_total{part=\"idle\",verdict=\"stop_failed\"} 1",
            "sexton_verdicts_total{part=\"runs\",verdict=\"stale\"} 1",
            "sexton_sweep_errors_total 1",
            "sexton_sweeps_total 1",
            "sexton_last_sweep_timestamp_seconds 1001.5",
            "sexton_sweep_age_seconds 4.5",
            "sexton_sweep_duration_seconds_sum 1.5",
            "sexton_stop_latency_seconds_count 1",
            "sexton_ticks_skipped_total 2",
            "sexton_start_time_seconds 900.0",
            "sexton_activity_writes_total 1",
            "sexton_activity_rows_total 167",
            "# UNIT sexton_stop_latency_seconds seconds",
            "# TYPE sexton_ticks_skipped counter",
        ] {
            assert!(text.lines().any(|known| known == line), "no {line:?} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn each_examined_session_counts_once() {
        let metrics = Metrics::default();
        let report = report();
        metrics.record_sweep(&report);
        let text = metrics.encode().unwrap();
        let counted: u64 = text
            .lines()
            .filter(|line| line.starts_with("sexton_verdicts_total{"))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(counted, report.parts.values().map(|part| part.examined).sum::<u64>());
    }
}
