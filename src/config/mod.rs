//! The settings: one struct per table of `config.toml`, whose shipped copy is the one place where defaults stand.
//!
//! `load.rs` layers the sources, `check/` refuses settings that contradict each other, `paths.rs` says where files lie,
//! `keys.rs` lists the settings, `render.rs` prints the effective ones, `rules/` has the limits of each
//! session, and `changes.rs` what differs between two.

mod changes;
mod check;
mod engines;
mod keys;
mod load;
mod paths;
mod render;
mod rules;
#[cfg(test)]
mod tests;
mod webhooks;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::Span;

pub use changes::Changes;
pub use check::{Contradictions, check};
pub use engines::{EngineConfig, Ladder, StopConfig};
pub use keys::{Key, keys};
pub use load::{ConfigError, Loaded, Sources, load};
pub use paths::{Environment, NoStateFolder, Paths};
pub use render::render;
pub use rules::{Pattern, Rule, Rules, SessionLimits};
pub use webhooks::WebhookConfig;

/// The shipped `config.toml`.
pub const DEFAULTS: &str = include_str!("../../config.toml");

/// Every setting, as it holds after all layers were read.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Config {
    /// Whose sessions these are; empty means the user who runs Sexton.
    pub owner: String,
    /// Who is told of events.
    pub webhooks: Vec<WebhookConfig>,
    /// Where rows and timeline are kept.
    pub store: StoreConfig,
    /// The worker's API.
    pub server: ServerConfig,
    /// The runner of this machine.
    pub runner: RunnerConfig,
    /// The rules.
    pub policy: PolicyConfig,
    /// The brakes.
    pub safety: SafetyConfig,
    /// When sweeps run.
    pub schedule: ScheduleConfig,
    /// Bounds on time, size and concurrency.
    pub limits: LimitsConfig,
    /// How long what is over is kept.
    pub retention: RetentionConfig,
    /// What is logged, and how.
    pub log: LogConfig,
    /// The engines that the runner of this machine can start, by name.
    pub engines: BTreeMap<String, EngineConfig>,
}

/// `[store]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct StoreConfig {
    /// `sqlite://PATH`; empty means the file in the state folder.
    pub url: String,
}

/// Reads an address with its port.
fn address<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<std::net::SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        let why = format!("{text:?} is no address with a port, such as \"127.0.0.1:7117\", in figures");
        serde::de::Error::custom(why)
    })
}

/// `[server]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct ServerConfig {
    /// Address and port of the API.
    #[serde(deserialize_with = "address")]
    pub listen: std::net::SocketAddr,
    /// Names under which it may be called.
    pub hosts: Vec<String>,
    /// Its certificate; empty means that it speaks without TLS.
    pub tls_cert: String,
    /// The key of that certificate.
    pub tls_key: String,
    /// Where engines find it; empty means at the address that it listens on.
    pub url: String,
    /// Certificates that runners' own ones are checked against too.
    pub runner_ca: String,
    /// How long it is remembered how far a client was served that went away.
    pub release_after: Span,
}

impl ServerConfig {
    /// Returns where engines find the API; none when nobody can tell beforehand, since any free port is taken.
    #[must_use]
    pub fn api_url(&self) -> Option<String> {
        if !self.url.is_empty() {
            return Some(self.url.trim_end_matches('/').to_owned());
        }
        let scheme = if self.tls_cert.is_empty() { "http" } else { "https" };
        (self.listen.port() != 0).then(|| format!("{scheme}://{}", crate::network::reachable(self.listen)))
    }
}

/// `[runner]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct RunnerConfig {
    /// Address and port of the runner.
    #[serde(deserialize_with = "address")]
    pub listen: std::net::SocketAddr,
    /// Names under which it may be asked.
    pub hosts: Vec<String>,
    /// Its certificate; empty means that it speaks without TLS.
    pub tls_cert: String,
    /// The key of that certificate.
    pub tls_key: String,
    /// The name it is enrolled under and answers with.
    pub id: crate::session::Id,
    /// Where it keeps its records; empty means the folder in the state folder.
    pub state_dir: String,
    /// The file with its secret; empty means the file in the state folder.
    pub token_file: String,
    /// How long a turn that is stalled, or stopped by force, has after it was interrupted.
    pub interrupt_grace: Span,
    /// How long an engine has to leave after its stdin was closed.
    pub stdin_grace: Span,
    /// How long it has after SIGTERM to it alone.
    pub engine_term_grace: Span,
    /// How long its process tree has after SIGTERM to all of it.
    pub tree_term_grace: Span,
    /// How long the tree is killed before the stop is reported as not done.
    pub kill_limit: Span,
    /// The runner's own idle rule, for when no worker was heard for that long; 0 = off.
    pub idle_after: Span,
    /// A stalled turn is interrupted at once.
    pub interrupt_stalled: bool,
    /// How long a caller may wait for the end of a turn.
    pub send_timeout: Span,
    /// How much of an engine's output is kept.
    pub output_bytes: Size,
    /// How long the output of an engine that has ended is kept.
    pub output_kept: Span,
    /// `auto`, `off`, or the path of a delegated cgroup.
    pub cgroup: String,
}

/// `[policy]`: the limits of the rules.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct PolicyConfig {
    /// A session that nothing has touched for this long is reaped.
    pub idle_after: Span,
    /// A driver's claim older than this no longer gives the right to drive.
    pub driver_stale_after: Span,
    /// Activity is written at most once per session in this time.
    pub activity_throttle: Span,
    /// An open row may be called an orphan once its engine was started longer ago than this.
    pub orphan_grace: Span,
    /// An open row may be called an orphan once it was quiet for this long.
    pub orphan_quiet: Span,
    /// A run without heartbeat for this long is stale.
    pub run_stale_after: Span,
    /// How long a row may stay in `starting`.
    pub start_timeout: Span,
    /// A runner that cannot be reached counts as gone after this.
    pub runner_gone_after: Span,
    /// How long before an idle reap it is told of; 0 = never.
    pub warn_before: Span,
    /// Limits that few people need to change.
    pub advanced: AdvancedPolicy,
    /// Other limits for some of the sessions.
    pub rule: Rules,
}

/// `[policy.advanced]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct AdvancedPolicy {
    /// A turn that emitted nothing for this long is stalled.
    pub stall_after: Span,
    /// A background task silent for longer, or a wake-up due later, no longer protects.
    pub background_max: Span,
    /// A session that waits for a person's answer is reaped after this.
    pub awaiting_after: Span,
}

/// `[safety]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct SafetyConfig {
    /// Sweeps decide and report, and act on nothing.
    pub paused: bool,
    /// At most this many idle stops per runner and pass; 0 = no limit.
    pub max_stops_per_runner: u32,
}

/// `[schedule]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct ScheduleConfig {
    /// Cron with five or six fields.
    pub sweep: String,
    /// The zone in which the expression is meant.
    pub timezone: String,
    /// A pass that takes longer is abandoned.
    pub pass_limit: Span,
    /// How long a stop of the worker waits for what is in flight.
    pub shutdown_limit: Span,
}

/// `[limits]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct LimitsConfig {
    /// Connecting to a runner.
    pub connect_timeout: Span,
    /// A whole request to a runner.
    pub request_timeout: Span,
    /// A whole `end`, which takes as long as the stop ladder.
    pub end_timeout: Span,
    /// How long a start or a message waits for a runner that is not ready or not there yet.
    pub ready_wait: Span,
    /// The largest answer of a runner that is read.
    pub response_bytes: Size,
    /// How many runners are asked at once.
    pub runners_at_once: u32,
    /// How many stops are in flight in all.
    pub stops_at_once: u32,
    /// How many stops are in flight per runner.
    pub stops_per_runner: u32,
    /// How long what a runner answered to a question about its connectivity is told again.
    pub connectivity_cache: Span,
    /// One attempt to hand an event to a webhook.
    pub webhook_timeout: Span,
    /// How long an event is tried to be handed to a webhook.
    pub webhook_give_up: Span,
}

/// `[retention]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct RetentionConfig {
    /// Ended sessions.
    pub ended: Span,
    /// Timeline entries.
    pub timeline: Span,
    /// How many uneventful sweeps.
    pub uneventful_sweeps: u32,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct LogConfig {
    /// A level or a filter.
    pub filter: String,
    /// `text` or `json`.
    pub format: LogFormat,
}

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A size in bytes, written such as `8MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub usize);

const UNITS: [(&str, usize); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (digits, unit) = UNITS
            .iter()
            .find_map(|(name, size)| text.strip_suffix(name).map(|digits| (digits, *size)))
            .unwrap_or((&text, 1));
        digits
            .trim()
            .parse::<usize>()
            .ok()
            .and_then(|count| count.checked_mul(unit))
            .map(Size)
            .ok_or_else(|| serde::de::Error::custom(format!("\"{text}\" is not a size such as \"8MiB\" or \"64KiB\"")))
    }
}

impl Serialize for Size {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let unit = UNITS.iter().find(|(_, size)| self.0 > 0 && self.0.is_multiple_of(*size));
        match unit {
            Some((name, size)) => serializer.collect_str(&format_args!("{}{name}", self.0 / size)),
            None => serializer.collect_str(&self.0),
        }
    }
}
