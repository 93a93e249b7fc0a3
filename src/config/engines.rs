//! `[engines.NAME]`: what starts an engine, how it speaks, and how it is stopped where that differs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::RunnerConfig;
use crate::session::AdapterKind;
use crate::time::{Ms, Span};

/// `[engines.NAME]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct EngineConfig {
    /// The program and its arguments; no shell reads them.
    pub command: Vec<String>,
    /// How it speaks.
    #[serde(default = "lines")]
    pub adapter: AdapterKind,
    /// The command that takes a conversation up again; `{engine_session_id}` stands for its id. Empty when there is none.
    #[serde(default)]
    pub resume: Vec<String>,
    /// More variables of the runner's environment that it gets; a name that ends with `*` stands for all that begin so.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// Environment variables that it gets beside the allowed ones.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Its own limits of a stop.
    #[serde(default, skip_serializing_if = "StopConfig::is_empty")]
    pub stop: StopConfig,
}

fn lines() -> AdapterKind {
    AdapterKind::Lines
}

/// `[engines.NAME.stop]`: the steps of the stop ladder that differ from those of `[runner]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct StopConfig {
    /// See [`RunnerConfig::interrupt_grace`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_grace: Option<Span>,
    /// See [`RunnerConfig::stdin_grace`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin_grace: Option<Span>,
    /// See [`RunnerConfig::engine_term_grace`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_term_grace: Option<Span>,
    /// See [`RunnerConfig::tree_term_grace`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree_term_grace: Option<Span>,
    /// See [`RunnerConfig::kill_limit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill_limit: Option<Span>,
}

/// The five steps of a stop, each with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// From interrupting a stalled or forced turn to closing stdin.
    pub interrupt: Span,
    /// From closing stdin to SIGTERM for the engine.
    pub stdin: Span,
    /// From there to SIGTERM for its whole tree.
    pub engine: Span,
    /// From there to SIGKILL.
    pub tree: Span,
    /// From there until the stop is reported as not done.
    pub kill: Span,
}

impl Ladder {
    /// Returns how long the whole stop takes at most, in milliseconds.
    #[must_use]
    pub fn longest(&self) -> Ms {
        let steps = [self.interrupt, self.stdin, self.engine, self.tree, self.kill];
        steps.iter().fold(0, |sum: Ms, step| sum.saturating_add(step.0))
    }
}

impl StopConfig {
    /// Returns whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl RunnerConfig {
    /// Returns the stop ladder of an engine; without one, of those that have none of their own.
    #[must_use]
    pub fn ladder(&self, own: StopConfig) -> Ladder {
        Ladder {
            interrupt: own.interrupt_grace.unwrap_or(self.interrupt_grace),
            stdin: own.stdin_grace.unwrap_or(self.stdin_grace),
            engine: own.engine_term_grace.unwrap_or(self.engine_term_grace),
            tree: own.tree_term_grace.unwrap_or(self.tree_term_grace),
            kill: own.kill_limit.unwrap_or(self.kill_limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::time::SECOND;

    #[test]
    fn an_engine_may_have_steps_of_its_own() {
        let runner = Config::defaults().runner;
        assert_eq!(runner.ladder(StopConfig::default()).longest(), 24 * SECOND);
        let own = StopConfig { stdin_grace: Some(Span(SECOND)), ..StopConfig::default() };
        let ladder = runner.ladder(own);
        assert_eq!((ladder.stdin, ladder.kill, ladder.longest()), (Span(SECOND), runner.kill_limit, 15 * SECOND));
    }

    #[test]
    fn the_shipped_engines_speak_as_their_names_say() {
        let adapters: Vec<_> =
            Config::defaults().engines.iter().map(|(name, engine)| format!("{name}={}", engine.adapter)).collect();
        assert_eq!(adapters, ["claude=claude", "codex=codex", "gemini=acp", "goose=acp", "opencode=opencode"]);
    }
}
