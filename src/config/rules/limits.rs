//! The limits that follow from the policy and its rules.
//!
//! Whoever decides about a session asks [`PolicyConfig::limits_of`] and gets the limits that hold for that one. Whoever
//! has to choose before a session was read asks for the outermost ones: a superset, which decides nothing.

use serde::Serialize;
use utoipa::ToSchema;

use crate::config::PolicyConfig;
use crate::config::rules::Rule;
use crate::protocol::StopLimits;
use crate::session::Session;
use crate::time::Ms;

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
    use crate::config::rules::tests::{policy, session};
    use crate::time::{HOUR, MINUTE};

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
