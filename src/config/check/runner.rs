//! Refuses settings of the runner that could reap early, lose output at once, or name no place.

use crate::config::check::LONGEST;
use crate::config::{Config, RunnerConfig};
use crate::time::compact;

/// Less output than this could not be followed: one long line may be as large.
const LEAST_OUTPUT: usize = 64 * 1024;

/// What only the runner obeys.
pub(super) fn runner(config: &Config, faults: &mut Vec<String>) {
    idle_rule(config, faults);
    let RunnerConfig { output_bytes, cgroup, .. } = &config.runner;
    if output_bytes.0 < LEAST_OUTPUT {
        faults.push(format!(
            "runner.output_bytes is {} bytes: it must be at least 64KiB, or nobody could follow a turn",
            output_bytes.0
        ));
    }
    let is_place = cgroup.starts_with('/') && !cgroup.contains('\0');
    if !is_place && !["auto", "off"].contains(&cgroup.as_str()) {
        faults.push(format!("runner.cgroup is {cgroup:?}: it must be \"auto\", \"off\" or an absolute path"));
    }
}

/// A runner alone reaps no earlier than a worker would.
fn idle_rule(config: &Config, faults: &mut Vec<String>) {
    let (own, rule) = (config.runner.idle_after, config.policy.idle_after);
    if own.0 == 0 {
        return;
    }
    if own < rule {
        faults.push(format!(
            "runner.idle_after ({}) may not be shorter than policy.idle_after ({}): without a worker, sessions would be reaped earlier than with one; 0s switches it off",
            compact(own.0),
            compact(rule.0),
        ));
    }
    if own.0 > LONGEST {
        faults.push(format!("runner.idle_after ({}) is longer than ten years; 0s switches it off", compact(own.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check;
    use crate::time::{HOUR, Span};

    fn faults(change: impl FnOnce(&mut RunnerConfig)) -> Vec<String> {
        let mut config = Config::defaults();
        change(&mut config.runner);
        check(&config).err().map_or_else(Vec::new, |found| found.0)
    }

    #[test]
    fn a_runner_alone_reaps_no_earlier_than_a_worker() {
        for (good, bad) in [(0, 1), (6 * HOUR, 6 * HOUR - 1), (LONGEST, LONGEST + 1)] {
            assert_eq!(faults(|runner| runner.idle_after = Span(good)), Vec::<String>::new());
            let found = faults(|runner| runner.idle_after = Span(bad));
            assert!(found.len() == 1 && found[0].starts_with("runner.idle_after"), "{bad}: {found:?}");
        }
    }

    #[test]
    fn a_cgroup_is_a_word_or_a_place() {
        for good in ["auto", "off", "/sys/fs/cgroup/sexton"] {
            assert!(faults(|runner| good.clone_into(&mut runner.cgroup)).is_empty(), "{good}");
        }
        for bad in ["", "on", "sys/fs/cgroup", "~/cgroup", "/\0"] {
            let found = faults(|runner| bad.clone_into(&mut runner.cgroup));
            assert!(found.len() == 1 && found[0].starts_with("runner.cgroup"), "{bad}: {found:?}");
        }
    }
}
