//! What runner and shim say to each other: one JSON object per line over the socket in the session's folder.

use serde::{Deserialize, Serialize};

use crate::protocol::{EngineExit, StopStage};
use crate::runner::process::Identity;
use crate::time::Ms;

/// The socket on which the shim listens, within the session's folder.
pub(crate) const SOCKET: &str = "s";
/// The file on which the shim holds a lock for as long as it lives.
pub(crate) const LOCK: &str = "lock";
/// What the shim leaves behind when nothing of the engine is left: a [`Gone`].
pub(crate) const EXIT: &str = "exit.json";

/// How long each step of a stop may take, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopGraces {
    /// From interrupting a stalled or forced turn to closing stdin.
    pub interrupt: Ms,
    /// From closing stdin to SIGTERM for the engine.
    pub stdin: Ms,
    /// From there to SIGTERM for its whole tree.
    pub engine: Ms,
    /// From there to SIGKILL.
    pub tree: Ms,
    /// From there until what is left is called stuck.
    pub kill: Ms,
    /// What an engine that left by itself leaves behind may stay for this long.
    pub linger: Ms,
}

impl StopGraces {
    /// Returns the longest time that a stop takes before it is called stuck.
    #[must_use]
    pub fn longest(&self) -> Ms {
        self.interrupt + self.stdin + self.engine + self.tree + self.kill
    }
}

/// The engine to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The program and its arguments; never given to a shell.
    pub(crate) command: Vec<String>,
    /// Its whole environment.
    pub(crate) env: std::collections::BTreeMap<String, String>,
    /// The folder to run it in.
    pub(crate) cwd: String,
    /// The limits of its stop.
    pub(crate) graces: StopGraces,
}

/// From the runner to the shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub(crate) enum Order {
    /// Start the engine; the first and only such order.
    Start(Spec),
    /// Stop it: its stdin is closed by now.
    Stop,
}

/// From the shim to the runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub(crate) enum News {
    /// The engine's program runs.
    Started {
        /// The engine.
        engine: Identity,
    },
    /// It does not, and nothing is left of the attempt.
    NotStarted {
        /// Why, in one sentence.
        why: String,
    },
    /// The engine's own process is gone; what it started may not be.
    EngineExited {
        /// How.
        exit: EngineExit,
    },
    /// Not everything could be killed within its time; it goes on trying.
    Stuck {
        /// What is left, for people.
        left: Vec<String>,
    },
    /// The kernel says that nothing of the engine is left.
    Gone(Gone),
}

/// How an engine and everything below it came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Gone {
    /// How the engine's own process ended.
    pub(crate) exit: Option<EngineExit>,
    /// The steps that were taken.
    pub(crate) stages: Vec<StopStage>,
    /// What the engine left behind when it left by itself, for people.
    #[serde(default)]
    pub(crate) left_behind: Vec<String>,
}
