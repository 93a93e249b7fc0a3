//! Refuses rules that could reap early, that no session can ever meet, or that nobody could tell apart.

use crate::config::check::window_faults;
use crate::config::{PolicyConfig, Rule, SessionLimits};

/// The longest name of a rule: it stands in tables and entries.
const LONGEST_NAME: usize = 64;

/// Each rule can be named and met, and what holds where it matches fits together as `[policy]` itself has to.
pub(super) fn rules(policy: &PolicyConfig, faults: &mut Vec<String>) {
    let rules: Vec<&Rule> = policy.rule.iter().collect();
    for (at, rule) in rules.iter().enumerate() {
        let table = table_of(rule);
        faults.extend(name_fault(rule, &rules[..at]).map(|fault| format!("{table}: {fault}")));
        faults.extend(repo_fault(rule).map(|fault| format!("{table}.repo {fault}")));
        if let Some(before) = rules[..at].iter().find(|before| before.covers(rule)) {
            let before = table_of(before);
            faults.push(format!("{table} is never reached: {before} before it matches all that it could match"));
        }
        let limits = policy.limits_under(Some(rule));
        // What the policy itself has wrong is told once, there.
        if limits != policy.limits_under(None) {
            faults.extend(window_faults(&limits, policy.activity_throttle, &table));
            faults
                .extend(nothing(&limits, rule).map(|key| format!("{table}.{key} is 0: it must be more than nothing")));
        }
    }
}

/// Names a rule as it is shown to the person who wrote it.
pub(super) fn table_of(rule: &Rule) -> String {
    format!("policy.rule {:?}", rule.name)
}

fn name_fault(rule: &Rule, before: &[&Rule]) -> Option<String> {
    if rule.name.trim().is_empty() || rule.name.len() > LONGEST_NAME || rule.name.chars().any(char::is_control) {
        return Some(format!("a name has 1 to {LONGEST_NAME} bytes and no control characters"));
    }
    let taken = before.iter().any(|other| other.name == rule.name);
    taken.then(|| "another rule has this name, so nobody could tell which one held".to_owned())
}

/// A repo is an absolute path, so a pattern that begins with anything but a slash or a wildcard fits none.
fn repo_fault(rule: &Rule) -> Option<String> {
    let pattern = rule.repo.as_ref()?.as_str();
    let fits = pattern.starts_with(['/', '*', '?', '[', '{', '\\']);
    if !fits {
        return Some(format!("({pattern:?}) fits no session: it must begin with / or **/, and ~ stands for nothing"));
    }
    let ends = pattern.len() > 1 && pattern.ends_with('/');
    ends.then(|| format!("({pattern:?}) fits no session: no folder's path ends with a slash; /** is what lies in it"))
}

/// Limits of this rule for which zero would switch a protection off. That of the idle window is told by its least.
fn nothing(limits: &SessionLimits, rule: &Rule) -> impl Iterator<Item = &'static str> {
    let durations = [
        ("driver_stale_after", rule.driver_stale_after, limits.driver_stale_after_ms),
        ("orphan_grace", rule.orphan_grace, limits.orphan_grace_ms),
        ("orphan_quiet", rule.orphan_quiet, limits.orphan_quiet_ms),
        ("stall_after", rule.stall_after, limits.stall_after_ms),
        ("background_max", rule.background_max, limits.background_max_ms),
        ("awaiting_after", rule.awaiting_after, limits.awaiting_after_ms),
    ];
    durations.into_iter().filter(|(_, own, ms)| own.is_some() && *ms == 0).map(|(key, _, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Pattern, check};
    use crate::time::{MINUTE, SECOND, Span};

    fn faults(rules: Vec<Rule>) -> Vec<String> {
        let mut config = Config::defaults();
        config.policy.rule = rules.into();
        check(&config).err().map_or_else(Vec::new, |found| found.0)
    }

    fn repo(pattern: &str) -> Rule {
        Rule { repo: Some(Pattern::new(pattern).unwrap()), ..Rule::default() }
    }

    fn engine(pattern: &str) -> Rule {
        Rule { engine: Some(Pattern::new(pattern).unwrap()), ..Rule::default() }
    }

    #[test]
    fn what_is_refused_of_the_policy_is_refused_of_a_rule_by_its_name() {
        for (change, key) in [
            (|rule: &mut Rule| rule.idle_after = Some(Span(14 * MINUTE)), "policy.rule \"x\".driver_stale_after"),
            (|rule| rule.driver_stale_after = Some(Span(7 * 3_600 * SECOND)), "policy.rule \"x\".driver_stale_after"),
            (|rule| rule.driver_stale_after = Some(Span(0)), "policy.rule \"x\".driver_stale_after is 0"),
            (|rule| rule.orphan_grace = Some(Span(0)), "policy.rule \"x\".orphan_grace is 0"),
            (|rule| rule.orphan_quiet = Some(Span(0)), "policy.rule \"x\".orphan_quiet is 0"),
            (|rule| rule.stall_after = Some(Span(0)), "policy.rule \"x\".stall_after is 0"),
            (|rule| rule.background_max = Some(Span(0)), "policy.rule \"x\".background_max is 0"),
            (|rule| rule.awaiting_after = Some(Span(0)), "policy.rule \"x\".awaiting_after is 0"),
            (|rule| rule.awaiting_after = Some(Span(i64::MAX)), "policy.rule \"x\": "),
            (|rule| rule.name = "a\nb".to_owned(), "policy.rule \"a\\nb\": a name has"),
            (|rule| rule.repo = Some(Pattern::new("~/src/**").unwrap()), "policy.rule \"x\".repo (\"~/src/**\")"),
            (|rule| rule.repo = Some(Pattern::new("src/*").unwrap()), "policy.rule \"x\".repo (\"src/*\")"),
            (|rule| rule.repo = Some(Pattern::new("/src/").unwrap()), "policy.rule \"x\".repo (\"/src/\")"),
        ] as [(fn(&mut Rule), &str); 13]
        {
            let mut rule = Rule { name: "x".to_owned(), ..Rule::default() };
            change(&mut rule);
            let found = faults(vec![rule]);
            assert!(found.len() == 1 && found[0].starts_with(key), "{key}: {found:?}");
        }
        let short =
            Rule { idle_after: Some(Span(2 * MINUTE)), driver_stale_after: Some(Span(MINUTE)), ..repo("/src/**") };
        let found = faults(vec![short]);
        assert!(
            found.len() == 1 && found[0].contains("a quarter of policy.rule \"rule 1\".idle_after (2m)"),
            "{found:?}"
        );
    }

    #[test]
    fn a_rule_that_is_never_reached_is_refused_by_name() {
        for (first, second) in [
            (Rule::default(), repo("/src/**")),
            (repo("**"), engine("codex")),
            (engine("*"), Rule::default()),
            (engine("codex"), engine("codex")),
            (engine("codex"), Rule { engine: engine("codex").engine, ..repo("/src/**") }),
        ] {
            let found = faults(vec![first.clone(), second.clone()]);
            let told = "policy.rule \"rule 2\" is never reached: policy.rule \"rule 1\"";
            assert!(found.len() == 1 && found[0].starts_with(told), "{first:?} {second:?} {found:?}");
        }
        assert_eq!(
            faults(vec![repo("/src/a"), repo("/src/**"), engine("codex"), Rule::default()]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn two_rules_of_one_name_are_refused() {
        let named = |rule: Rule| Rule { name: "x".to_owned(), ..rule };
        let found = faults(vec![named(repo("/a")), named(repo("/b"))]);
        assert!(found.len() == 1 && found[0].contains("another rule has this name"), "{found:?}");
    }
}
