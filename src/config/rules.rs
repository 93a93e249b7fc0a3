//! `[[policy.rule]]`: other limits for some of the sessions, as data. The first rule that matches a session holds.
//!
//! Whoever decides about a session asks [`PolicyConfig::limits_of`] and gets the limits that hold for that one. Whoever
//! has to choose before a session was read asks for the outermost ones: a superset, which decides nothing.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::config::PolicyConfig;
use crate::protocol::StopLimits;
use crate::session::Session;
use crate::time::{Ms, Span};

/// A pattern such as `/src/**` or `claude*`, compiled when it is read. `*` and `?` stay within one part of a path, `**`
/// crosses parts.
#[derive(Clone)]
pub struct Pattern(GlobMatcher);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Says in one sentence what is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        let glob = GlobBuilder::new(text).literal_separator(true).empty_alternates(true).build();
        glob.map(|glob| Self(glob.compile_matcher()))
            .map_err(|error| format!("\"{text}\" is no pattern: {}", error.kind()))
    }

    /// Returns it as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.glob().glob()
    }

    fn fits(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.as_str()).finish()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

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
    /// See [`PolicyConfig::idle_after`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_after: Option<Span>,
    /// See [`PolicyConfig::driver_stale_after`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_stale_after: Option<Span>,
    /// See [`PolicyConfig::orphan_grace`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan_grace: Option<Span>,
    /// See [`PolicyConfig::orphan_quiet`].
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

/// The limits that hold for one session, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct SessionLimits {
    /// Nothing touched it for this long: it is idle. The session's own, where it has one.
    pub idle_after_ms: Ms,
    /// A driver's claim older than this no longer gives the right to drive.
    pub driver_stale_after_ms: Ms,
    /// It may be called an orphan only once its engine was started longer ago than this.
    pub orphan_grace_ms: Ms,
    /// It may be called an orphan only once it was quiet for this long.
    pub orphan_quiet_ms: Ms,
    /// A turn that emitted nothing for this long no longer protects it.
    pub stall_after_ms: Ms,
    /// A background task silent for longer, or a wake-up due later, no longer protects it.
    pub background_max_ms: Ms,
    /// While it waits for a person's answer, it is reaped after this.
    pub awaiting_after_ms: Ms,
}

impl SessionLimits {
    /// Returns the condition of a stop.
    #[must_use]
    pub fn stop(&self) -> StopLimits {
        StopLimits {
            quiet_for_ms: self.idle_after_ms,
            awaiting_for_ms: self.awaiting_after_ms,
            stalled_for_ms: self.stall_after_ms,
            background_for_ms: self.background_max_ms,
        }
    }

    fn with(mut self, rule: &Rule) -> Self {
        let changes = [
            (&mut self.idle_after_ms, rule.idle_after),
            (&mut self.driver_stale_after_ms, rule.driver_stale_after),
            (&mut self.orphan_grace_ms, rule.orphan_grace),
            (&mut self.orphan_quiet_ms, rule.orphan_quiet),
            (&mut self.stall_after_ms, rule.stall_after),
            (&mut self.background_max_ms, rule.background_max),
            (&mut self.awaiting_after_ms, rule.awaiting_after),
        ];
        for (limit, change) in changes {
            *limit = change.map_or(*limit, |span| span.0);
        }
        self
    }
}

impl PolicyConfig {
    /// Returns the first rule that matches a session, if one does.
    #[must_use]
    pub fn rule_of(&self, session: &Session) -> Option<&Rule> {
        self.rule.iter().find(|rule| rule.matches(session))
    }

    /// Returns the limits that hold for a session: those of `[policy]`, changed by the first rule that matches, and the
    /// session's own idle window over both.
    #[must_use]
    pub fn limits_of(&self, session: &Session) -> SessionLimits {
        let limits = self.limits_under(self.rule_of(session));
        SessionLimits { idle_after_ms: session.idle_after_ms.unwrap_or(limits.idle_after_ms), ..limits }
    }

    /// Returns the limits that hold where `rule` does, or where none does.
    #[must_use]
    pub fn limits_under(&self, rule: Option<&Rule>) -> SessionLimits {
        let base = SessionLimits {
            idle_after_ms: self.idle_after.0,
            driver_stale_after_ms: self.driver_stale_after.0,
            orphan_grace_ms: self.orphan_grace.0,
            orphan_quiet_ms: self.orphan_quiet.0,
            stall_after_ms: self.advanced.stall_after.0,
            background_max_ms: self.advanced.background_max.0,
            awaiting_after_ms: self.advanced.awaiting_after.0,
        };
        rule.map_or(base, |rule| base.with(rule))
    }

    /// Returns the shortest idle window that any session without one of its own may have. It narrows, and decides nothing.
    #[must_use]
    pub fn shortest_idle_after(&self) -> Ms {
        self.all_limits().map(|limits| limits.idle_after_ms).min().unwrap_or(self.idle_after.0)
    }

    /// Returns the longest idle window that any session without one of its own may have. It narrows, and decides nothing.
    #[must_use]
    pub fn longest_idle_after(&self) -> Ms {
        self.all_limits().map(|limits| limits.idle_after_ms).max().unwrap_or(self.idle_after.0)
    }

    /// Returns the condition of a stop that is fulfilled only where that of each session without a window of its own is:
    /// the longest of each limit.
    #[must_use]
    pub fn longest_stop_limits(&self) -> StopLimits {
        let longer = |one: StopLimits, other: StopLimits| StopLimits {
            quiet_for_ms: one.quiet_for_ms.max(other.quiet_for_ms),
            awaiting_for_ms: one.awaiting_for_ms.max(other.awaiting_for_ms),
            stalled_for_ms: one.stalled_for_ms.max(other.stalled_for_ms),
            background_for_ms: one.background_for_ms.max(other.background_for_ms),
        };
        let base = self.limits_under(None).stop();
        self.all_limits().map(|limits| limits.stop()).fold(base, longer)
    }

    fn all_limits(&self) -> impl Iterator<Item = SessionLimits> {
        let under_rules = self.rule.iter().map(|rule| self.limits_under(Some(rule)));
        std::iter::once(self.limits_under(None)).chain(under_rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::session::Status;
    use crate::time::{HOUR, MINUTE};

    fn policy(rules: &str) -> PolicyConfig {
        let mut policy = Config::defaults().policy;
        policy.rule = toml::from_str::<Holder>(rules).unwrap().rule;
        policy
    }

    #[derive(Deserialize)]
    struct Holder {
        rule: Rules,
    }

    fn session(repo: &str) -> Session {
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

    #[test]
    fn the_first_match_holds_and_what_it_leaves_out_is_as_in_the_policy() {
        let policy = policy(
            "[[rule]]\nname = \"app\"\nrepo = \"/src/app\"\nstall_after = \"1h\"\n\
             [[rule]]\nrepo = \"/src/*\"\nidle_after = \"1h\"\nstall_after = \"2h\"",
        );
        let (app, web) = (session("/src/app"), session("/src/web"));
        let names = [&app, &web].map(|session| policy.rule_of(session).unwrap().name.clone());
        assert_eq!(names, ["app", "rule 2"]);
        let limits = [&app, &web, &session("/x")].map(|session| policy.limits_of(session));
        assert_eq!(limits.map(|limits| limits.idle_after_ms), [6 * HOUR, HOUR, 6 * HOUR]);
        assert_eq!(limits.map(|limits| limits.stall_after_ms), [HOUR, 2 * HOUR, 30 * MINUTE]);
        let own = Session { idle_after_ms: Some(9 * HOUR), ..web };
        assert_eq!(policy.limits_of(&own).stop().quiet_for_ms, 9 * HOUR, "the session's own window wins");
    }

    #[test]
    fn the_outermost_limits_are_a_superset_of_each_sessions() {
        let policy = policy(
            "[[rule]]\nrepo = \"/a/*\"\nidle_after = \"1h\"\nbackground_max = \"48h\"\n\
             [[rule]]\nrepo = \"/b/*\"\nidle_after = \"9h\"\nawaiting_after = \"30h\"\nstall_after = \"10m\"",
        );
        let longest = policy.longest_stop_limits();
        for repo in ["/a/x", "/b/x", "/c/x"] {
            let limits = policy.limits_of(&session(repo));
            assert!(policy.shortest_idle_after() <= limits.idle_after_ms);
            let stop = limits.stop();
            assert!(longest.quiet_for_ms >= stop.quiet_for_ms && longest.awaiting_for_ms >= stop.awaiting_for_ms);
            assert!(longest.stalled_for_ms >= stop.stalled_for_ms);
            assert!(longest.background_for_ms >= stop.background_for_ms);
        }
        assert_eq!((policy.shortest_idle_after(), longest.quiet_for_ms), (HOUR, 9 * HOUR));
    }

    #[test]
    fn every_limit_of_a_rule_takes_effect() {
        let text = "[[rule]]\nidle_after = \"1ms\"\ndriver_stale_after = \"2ms\"\norphan_grace = \"3ms\"\n\
                    orphan_quiet = \"4ms\"\nstall_after = \"5ms\"\nbackground_max = \"6ms\"\nawaiting_after = \"7ms\"";
        let limits = policy(text).limits_of(&session("/x"));
        let expected = SessionLimits {
            idle_after_ms: 1,
            driver_stale_after_ms: 2,
            orphan_grace_ms: 3,
            orphan_quiet_ms: 4,
            stall_after_ms: 5,
            background_max_ms: 6,
            awaiting_after_ms: 7,
        };
        assert_eq!(limits, expected);
    }
}
