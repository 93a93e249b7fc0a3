//! Refuses settings of the runner that could reap early, lose output at once, or name no place.

use crate::config::check::LONGEST;
use crate::config::check::rules::table_of;
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

/// A runner alone reaps no earlier than a worker would, whichever rule that goes by.
fn idle_rule(config: &Config, faults: &mut Vec<String>) {
    let own = config.runner.idle_after;
    if own.0 == 0 {
        return;
    }
    let base = ("policy".to_owned(), config.policy.idle_after);
    let of_rules = config.policy.rule.iter().filter_map(|rule| Some((table_of(rule), rule.idle_after?)));
    let longest = std::iter::once(base).chain(of_rules).max_by_key(|(_, window)| *window);
    if let Some((table, window)) = longest.filter(|(_, window)| own < *window) {
        faults.push(format!(
            "runner.idle_after ({}) may not be shorter than {table}.idle_after ({}): without a worker, sessions would be reaped earlier than with one; 0s switches it off",
            compact(own.0),
            compact(window.0),
        ));
    }
    if own.0 > LONGEST {
        faults.push(format!("runner.idle_after ({}) is longer than ten years; 0s switches it off", compact(own.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Rule, check};
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
    fn a_runner_alone_knows_no_rules_and_waits_for_the_longest_window() {
        let mut config = Config::defaults();
        config.runner.idle_after = Span(8 * HOUR);
        config.policy.rule = vec![Rule { idle_after: Some(Span(9 * HOUR)), ..Rule::default() }].into();
        let found = check(&config).unwrap_err().0;
        assert!(found.len() == 1 && found[0].contains("policy.rule \"rule 1\".idle_after (9h)"), "{found:?}");
        config.runner.idle_after = Span(9 * HOUR);
        assert_eq!(check(&config), Ok(()));
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
