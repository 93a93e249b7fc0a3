//! What the worker counts: one registry per worker, no global state, so that each test has its own.

use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::sweep::SweepReport;
use crate::time::{Ms, UtcMs};

/// The labels of a verdict count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    part: &'static str,
    verdict: &'static str,
}

/// Counts, gauges and histograms of one worker.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    verdicts: Family<VerdictLabels, Counter>,
    errors: Counter,
    sweeps: Counter,
    finished_at: Gauge<f64, AtomicU64>,
    sweep_seconds: Histogram,
    stop_seconds: Histogram,
    skipped: Gauge<i64, AtomicI64>,
    started_at: Gauge<f64, AtomicU64>,
}

impl Default for Metrics {
    fn default() -> Self {
        let buckets = || exponential_buckets(0.005, 2.5, 12);
        let mut metrics = Self {
            registry: Registry::with_prefix("sexton"),
            verdicts: Family::default(),
            errors: Counter::default(),
            sweeps: Counter::default(),
            finished_at: Gauge::default(),
            sweep_seconds: Histogram::new(buckets()),
            stop_seconds: Histogram::new(buckets()),
            skipped: Gauge::default(),
            started_at: Gauge::default(),
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
        registry.register_with_unit(
            "last_sweep_finished",
            "When the last pass finished, since 1970",
            Unit::Seconds,
            self.finished_at.clone(),
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
        registry.register_with_unit(
            "started",
            "When the worker started, since 1970",
            Unit::Seconds,
            self.started_at.clone(),
        );
    }

    /// Takes note of the worker's start.
    pub fn record_start(&self, now: UtcMs) {
        self.started_at.set(seconds(now.0));
    }

    /// Takes note of a finished pass.
    pub fn record_sweep(&self, report: &SweepReport) {
        for (part, counts) in &report.parts {
            for item in counts.items.iter().filter(|item| item.verdict.ends()) {
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

    /// Takes note of how many ticks were skipped since the start.
    pub fn record_skipped(&self, ticks: i64) {
        self.skipped.set(ticks);
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

#[expect(clippy::cast_precision_loss, reason = "a gauge holds a float; milliseconds since 1970 fit it exactly")]
fn seconds(ms: Ms) -> f64 {
    ms as f64 / 1_000.0
}
