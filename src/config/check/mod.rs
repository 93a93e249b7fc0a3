//! Refuses settings that are well written but cannot be meant: contradictions, limits of nothing.
//!
//! `network.rs` has where the daemons listen, `runner.rs` what only the runner obeys, `engines.rs` the engines, `rules.rs`
//! the rules, `timeouts.rs` who waits for whom, `webhooks.rs` who is told. A limit that could reap early is refused rather
//! than bent. What would merely reap late, or never, is the person's choice.

mod engines;
mod network;
mod rules;
mod runner;
mod timeouts;
mod webhooks;

use crate::config::{Config, LimitsConfig, PolicyConfig, SessionLimits};
use crate::cron::Expression;
use crate::time::{SECOND, Span, compact};

/// Settings that contradict each other or themselves: one sentence each, with the keys by name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Contradictions(pub Vec<String>);

/// Checks the settings as a whole.
///
/// # Errors
/// Every fault, each by the name of its key.
pub fn check(config: &Config) -> Result<(), Contradictions> {
    let mut faults = Vec::new();
    network::network(config, &mut faults);
    store(config, &mut faults);
    windows(&config.policy, &mut faults);
    rules::rules(&config.policy, &mut faults);
    nothing(config, &mut faults);
    concurrency(&config.limits, &mut faults);
    timeouts::timeouts(config, &mut faults);
    schedule(config, &mut faults);
    retention(config, &mut faults);
    runner::runner(config, &mut faults);
    engines::engines(config, &mut faults);
    webhooks::webhooks(config, &mut faults);
    if faults.is_empty() { Ok(()) } else { Err(Contradictions(faults)) }
}

/// The store is a file.
fn store(config: &Config, faults: &mut Vec<String>) {
    let url = &config.store.url;
    if !url.is_empty() && !url.starts_with("sqlite:") {
        faults.push("store.url must be a SQLite file, such as sqlite:///var/lib/sexton/sexton.db".to_owned());
    }
}

/// Runners refuse limits that are longer than ten years.
const LONGEST: i64 = 10 * 365 * 24 * crate::time::HOUR;

/// The windows of the policy fit together.
fn windows(policy: &PolicyConfig, faults: &mut Vec<String>) {
    let limits = policy.limits_under(None);
    faults.extend(window_faults(&limits, policy.activity_throttle, "policy"));
}

/// Says how the limits of some sessions do not fit together; `table` is where they stand.
fn window_faults(limits: &SessionLimits, throttle: Span, table: &str) -> Vec<String> {
    let (idle, driver) = (limits.idle_after_ms, limits.driver_stale_after_ms);
    let mut faults = Vec::new();
    if idle < SECOND {
        faults.push(format!("{table}.idle_after is {}: it must be at least 1s", compact(idle)));
    }
    let longest = [idle, limits.awaiting_after_ms, limits.background_max_ms];
    if let Some(ms) = longest.into_iter().find(|ms| *ms > LONGEST) {
        faults.push(format!("{table}: {} is longer than ten years; runners refuse such a limit", compact(ms)));
    }
    if throttle.0 > idle / 4 {
        faults.push(format!(
            "policy.activity_throttle ({}) may be at most a quarter of {table}.idle_after ({}): what was used just now could look idle",
            compact(throttle.0),
            compact(idle),
        ));
    }
    if driver > idle {
        faults.push(format!(
            "{table}.driver_stale_after ({}) may not be longer than {table}.idle_after ({}): a driver could be reaped at the wheel",
            compact(driver),
            compact(idle),
        ));
    }
    faults
}

/// Durations and sizes for which zero would switch a protection off, or make every attempt fail.
fn nothing(config: &Config, faults: &mut Vec<String>) {
    let (policy, limits) = (&config.policy, &config.limits);
    let durations = [
        ("policy.driver_stale_after", policy.driver_stale_after),
        ("policy.orphan_grace", policy.orphan_grace),
        ("policy.orphan_quiet", policy.orphan_quiet),
        ("policy.run_stale_after", policy.run_stale_after),
        ("policy.start_timeout", policy.start_timeout),
        ("policy.runner_gone_after", policy.runner_gone_after),
        ("policy.advanced.stall_after", policy.advanced.stall_after),
        ("policy.advanced.background_max", policy.advanced.background_max),
        ("policy.advanced.awaiting_after", policy.advanced.awaiting_after),
        ("runner.kill_limit", config.runner.kill_limit),
        ("runner.send_timeout", config.runner.send_timeout),
        ("schedule.pass_limit", config.schedule.pass_limit),
        ("limits.connect_timeout", limits.connect_timeout),
        ("limits.request_timeout", limits.request_timeout),
        ("limits.end_timeout", limits.end_timeout),
        ("limits.webhook_timeout", limits.webhook_timeout),
        ("limits.webhook_give_up", limits.webhook_give_up),
        ("retention.ended", config.retention.ended),
        ("retention.timeline", config.retention.timeline),
    ];
    let zero = durations.iter().filter(|(_, span)| span.0 == 0).map(|(key, _)| *key);
    let empty = (limits.response_bytes.0 == 0).then_some("limits.response_bytes");
    faults.extend(zero.chain(empty).map(|key| format!("{key} is 0: it must be more than nothing")));
}

/// Something must be able to happen at all.
fn concurrency(limits: &LimitsConfig, faults: &mut Vec<String>) {
    let counts = [
        ("limits.runners_at_once", limits.runners_at_once),
        ("limits.stops_at_once", limits.stops_at_once),
        ("limits.stops_per_runner", limits.stops_per_runner),
    ];
    let zero = counts.iter().filter(|(_, count)| *count == 0);
    let before = faults.len();
    faults.extend(zero.map(|(key, _)| format!("{key} is 0: nothing could ever happen; use 1 or more")));
    if faults.len() == before && limits.stops_per_runner >= limits.stops_at_once {
        faults.push(format!(
            "limits.stops_per_runner ({}) must be less than limits.stops_at_once ({}): one runner that hangs could hold up all others",
            limits.stops_per_runner, limits.stops_at_once,
        ));
    }
}

/// The expression can be read in its zone, and fires.
fn schedule(config: &Config, faults: &mut Vec<String>) {
    let schedule = &config.schedule;
    // A bad zone is not the expression's fault.
    let key = if Expression::parse("@daily", &schedule.timezone).is_err() { "timezone" } else { "sweep" };
    if let Err(reason) = Expression::parse(&schedule.sweep, &schedule.timezone) {
        faults.push(format!("schedule.{key}: {reason}"));
    }
}

/// An entry outlives the session whose end it explains.
fn retention(config: &Config, faults: &mut Vec<String>) {
    let retention = &config.retention;
    if retention.timeline < retention.ended {
        faults.push(format!(
            "retention.timeline ({}) may not be shorter than retention.ended ({}): sessions would outlive the reason of their end",
            compact(retention.timeline.0),
            compact(retention.ended.0),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{HOUR, MINUTE};

    fn faults(change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = Config::defaults();
        change(&mut config);
        check(&config).err().map_or_else(Vec::new, |found| found.0)
    }

    /// Each setting that a test changes to something that cannot be meant, and what the refusal must name.
    #[expect(clippy::type_complexity, reason = "a table of one test")]
    const REFUSED: [(fn(&mut Config), &str); 33] = [
        (|c| c.policy.activity_throttle = Span(c.policy.idle_after.0 / 4 + 1), "policy.activity_throttle"),
        (|c| c.policy.driver_stale_after = Span(c.policy.idle_after.0 + 1), "policy.driver_stale_after"),
        (|c| c.policy.driver_stale_after = Span(0), "policy.driver_stale_after"),
        (|c| c.policy.orphan_grace = Span(0), "policy.orphan_grace"),
        (|c| c.policy.orphan_quiet = Span(0), "policy.orphan_quiet"),
        (|c| c.policy.run_stale_after = Span(0), "policy.run_stale_after"),
        (|c| c.policy.start_timeout = Span(0), "policy.start_timeout"),
        (|c| c.policy.runner_gone_after = Span(0), "policy.runner_gone_after"),
        (|c| c.policy.advanced.stall_after = Span(0), "policy.advanced.stall_after"),
        (|c| c.policy.advanced.background_max = Span(0), "policy.advanced.background_max"),
        (|c| c.policy.advanced.awaiting_after = Span(0), "policy.advanced.awaiting_after"),
        (|c| c.runner.kill_limit = Span(0), "runner.kill_limit"),
        (|c| c.runner.send_timeout = Span(0), "runner.send_timeout"),
        (|c| c.schedule.pass_limit = Span(0), "schedule.pass_limit"),
        (|c| c.limits.ready_wait = Span(c.policy.start_timeout.0 / 2 + 1), "limits.ready_wait"),
        (|c| c.limits.connect_timeout = Span(0), "limits.connect_timeout"),
        (|c| c.limits.request_timeout = Span(0), "limits.request_timeout"),
        (|c| c.limits.end_timeout = Span(0), "limits.end_timeout"),
        (|c| c.limits.webhook_timeout = Span(0), "limits.webhook_timeout"),
        (|c| c.limits.webhook_give_up = Span(0), "limits.webhook_give_up"),
        (|c| c.limits.response_bytes.0 = 0, "limits.response_bytes"),
        (|c| c.limits.runners_at_once = 0, "limits.runners_at_once"),
        (|c| c.limits.stops_at_once = 0, "limits.stops_at_once"),
        (|c| c.limits.stops_per_runner = 0, "limits.stops_per_runner"),
        (
            |c| c.limits.end_timeout = Span(25 * SECOND),
            "limits.end_timeout (25s) must be longer than runner.interrupt_grace",
        ),
        (|c| c.runner.stdin_grace = Span(32 * SECOND), "limits.end_timeout"),
        (|c| c.limits.request_timeout = Span(c.limits.connect_timeout.0 - 1), "limits.request_timeout"),
        (|c| c.limits.stops_per_runner = c.limits.stops_at_once, "limits.stops_per_runner"),
        (|c| c.retention.ended = Span(0), "retention.ended"),
        (|c| c.retention.timeline = Span(c.retention.ended.0 - 1), "retention.timeline"),
        (|c| c.schedule.sweep = "0 0 30 2 *".to_owned(), "schedule.sweep"),
        (|c| c.schedule.timezone = "Mars/Olympus".to_owned(), "schedule.timezone"),
        (|c| c.store.url = "postgres://db/sexton".to_owned(), "store.url"),
    ];

    #[test]
    fn the_shipped_settings_are_fine() {
        assert_eq!(faults(|_| ()), Vec::<String>::new());
    }

    #[test]
    fn each_contradiction_is_refused_by_name_and_alone() {
        for (change, key) in REFUSED {
            let found = faults(change);
            assert_eq!(found.len(), 1, "{key}: {found:?}");
            assert!(found[0].starts_with(key), "{key}: {found:?}");
        }
    }

    #[test]
    fn limits_at_their_edge_are_fine() {
        let edge = faults(|c| {
            c.policy.idle_after = Span(SECOND);
            c.policy.activity_throttle = Span(SECOND / 4);
            c.policy.driver_stale_after = Span(SECOND);
        });
        assert_eq!(edge, Vec::<String>::new());
        assert_eq!(faults(|c| c.policy.activity_throttle = Span(0)), Vec::<String>::new());
        let edge = faults(|c| {
            c.limits.end_timeout = Span(25 * SECOND + 1);
            c.limits.request_timeout = c.limits.connect_timeout;
            c.limits.stops_per_runner = c.limits.stops_at_once - 1;
        });
        assert_eq!(edge, Vec::<String>::new());
    }

    #[test]
    fn a_window_under_a_second_is_refused_with_what_no_longer_fits_into_it() {
        let found = faults(|c| c.policy.idle_after = Span(999));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("policy.idle_after is 999ms"), "{found:?}");
        let found = faults(|c| c.policy.idle_after = Span(2 * MINUTE));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("(1m)") && found[0].contains("(2m)"), "{found:?}");
        assert!(faults(|c| c.policy.idle_after = Span(HOUR)).is_empty());
    }
}
