//! `[[policy.rule]]`: other limits for some of the sessions, as data. The first rule that matches a session holds.
//!
//! `pattern.rs` says what matches, `limits.rs` which limits follow.

mod limits;
mod pattern;

use serde::{Deserialize, Serialize};

pub use limits::SessionLimits;
pub use pattern::Pattern;

use crate::session::Session;
use crate::time::Span;

/// `[[policy.rule]]`: which sessions, and the limits that are others for those. What it leaves out is as in `[policy]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Rule {
    /// What `explain` and the timeline call it; `rule N`, counted from 1, when nothing is said.
    #[serde(default)]
    pub name: String,
    /// The session's folder, an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<Pattern>,
    /// The engine's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Pattern>,
    /// The runner's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<Pattern>,
    /// The owner's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Pattern>,
    /// See [`crate::config::PolicyConfig::idle_after`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_after: Option<Span>,
    /// See [`crate::config::PolicyConfig::driver_stale_after`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_stale_after: Option<Span>,
    /// See [`crate::config::PolicyConfig::orphan_grace`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan_grace: Option<Span>,
    /// See [`crate::config::PolicyConfig::orphan_quiet`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan_quiet: Option<Span>,
    /// See [`crate::config::AdvancedPolicy::stall_after`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_after: Option<Span>,
    /// See [`crate::config::AdvancedPolicy::background_max`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_max: Option<Span>,
    /// See [`crate::config::AdvancedPolicy::awaiting_after`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaiting_after: Option<Span>,
}

impl Rule {
    /// Returns whether it holds for a session: each pattern that it has fits. A row without an owner has the empty one.
    #[must_use]
    pub fn matches(&self, session: &Session) -> bool {
        let fits = |pattern: &Option<Pattern>, text: &str| pattern.as_ref().is_none_or(|pattern| pattern.fits(text));
        fits(&self.repo, folder(&session.repo))
            && fits(&self.engine, &session.engine)
            && fits(&self.runner, session.runner_id.as_str())
            && fits(&self.owner, session.owner_id.as_deref().unwrap_or_default())
    }

    /// Returns whether every session that `other` matches is one that this rule matches, as far as their patterns tell.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let pairs = [
            (&self.repo, &other.repo, "**"),
            (&self.engine, &other.engine, "*"),
            (&self.runner, &other.runner, "*"),
            (&self.owner, &other.owner, "*"),
        ];
        pairs.into_iter().all(|(own, others, all)| {
            own.as_ref().is_none_or(|own| own.as_str() == all || Some(own) == others.as_ref())
        })
    }
}

/// Returns a path without the slashes at its end, which say nothing.
fn folder(repo: &str) -> &str {
    let bare = repo.trim_end_matches('/');
    if bare.is_empty() { repo } else { bare }
}

/// The rules in their order, each with a name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(from = "Vec<Rule>", into = "Vec<Rule>")]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Lists them.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }
}

impl From<Vec<Rule>> for Rules {
    fn from(mut rules: Vec<Rule>) -> Self {
        for (at, rule) in rules.iter_mut().enumerate().filter(|(_, rule)| rule.name.is_empty()) {
            rule.name = format!("rule {}", at + 1);
        }
        Self(rules)
    }
}

impl From<Rules> for Vec<Rule> {
    fn from(rules: Rules) -> Self {
        rules.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, PolicyConfig};
    use crate::session::Status;
    use crate::time::HOUR;

    pub(super) fn policy(rules: &str) -> PolicyConfig {
        let mut policy = Config::defaults().policy;
        policy.rule = toml::from_str::<Holder>(rules).unwrap().rule;
        policy
    }

    #[derive(Deserialize)]
    struct Holder {
        rule: Rules,
    }

    pub(super) fn session(repo: &str) -> Session {
        Session {
            id: "s".parse().unwrap(),
            runner_id: "mac".parse().unwrap(),
            owner_id: Some("ann".to_owned()),
            repo: repo.to_owned(),
            engine: "claude".to_owned(),
            engine_session_id: None,
            status: Status::Active,
            generation: 1,
            reopened: 0,
            started_at: None,
            attached_at: None,
            updated_at: None,
            last_activity_at: None,
            last_activity_kind: None,
            driver: None,
            driver_at: None,
            keep_until: None,
            keep_reason: None,
            idle_after_ms: None,
            next_check_at: None,
            ended_at: None,
            end_reason: None,
        }
    }

    #[test]
    fn one_star_stays_within_a_part_of_the_path_and_two_do_not() {
        for (pattern, repo, fits) in [
            ("/src/*", "/src/app", true),
            ("/src/*", "/src/app/", true),
            ("/src/*", "/src/app/web", false),
            ("/src/**", "/src/app/web", true),
            ("/src/**", "/src", false),
            ("/src{,/**}", "/src", true),
            ("**/app", "/src/app", true),
            ("**/app", "/src/.tmp/app", true),
            ("**/app", "/src/happ", false),
            ("/src/a?p", "/src/app", true),
            ("/src/?", "/src//", false),
            ("**", "/any/thing", true),
            ("/", "/", true),
            ("/SRC/*", "/src/app", false),
            ("/src/[ab]*", "/src/back", true),
        ] {
            let rule = Rule { repo: Some(Pattern::new(pattern).unwrap()), ..Rule::default() };
            assert_eq!(rule.matches(&session(repo)), fits, "{pattern} {repo}");
        }
    }

    #[test]
    fn every_pattern_of_a_rule_has_to_fit() {
        let all =
            "[[rule]]\nrepo = \"/src/*\"\nengine = \"cl*\"\nrunner = \"mac\"\nowner = \"a?n\"\nidle_after = \"1h\"";
        let policy = policy(all);
        let fitting = session("/src/app");
        assert!(policy.rule_of(&fitting).is_some());
        for change in [
            (|s: &mut Session| s.repo = "/app".to_owned()) as fn(&mut Session),
            |s| s.engine = "codex".to_owned(),
            |s| s.runner_id = "linux".parse().unwrap(),
            |s| s.owner_id = Some("bob".to_owned()),
            |s| s.owner_id = None,
        ] {
            let mut other = fitting.clone();
            change(&mut other);
            assert!(policy.rule_of(&other).is_none(), "{other:?}");
            assert_eq!(policy.limits_of(&other).idle_after_ms, 6 * HOUR);
        }
    }
}
