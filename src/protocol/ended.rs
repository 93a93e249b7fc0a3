//! What a runner remembers of an engine that is gone, until the worker tells it to forget.

use serde::{Deserialize, Serialize};

use crate::session::Id;
use crate::time::Ms;

/// How the engine's process ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EngineExit {
    /// Its exit code, when it exited.
    #[serde(default)]
    pub code: Option<i64>,
    /// The signal that ended it, when one did.
    #[serde(default)]
    pub signal: Option<i64>,
}

/// One step of the stop ladder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopStage {
    /// The step: `stdin_closed`, `sigterm_engine`, `sigterm_tree`, `sigkill`, `empty`.
    pub stage: String,
    /// When it was taken, in milliseconds after the stop began.
    pub at_ms: Ms,
}

/// How a person takes the conversation up again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeCommand {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The folder to run it in.
    pub cwd: String,
}

/// A record of an engine that is gone: one per session and generation, listed until forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The session whose engine it was.
    pub session_id: Id,
    /// Which start of the session it belonged to.
    pub generation: i64,
    /// Why it ended: the reason given with the stop, or `exited`, `start_failed`, `host_reboot`.
    pub reason: String,
    /// The sweep that asked for the stop.
    #[serde(default)]
    pub sweep_id: Option<Id>,
    /// How long ago it ended, on a clock that runs on in sleep where the runner knows one.
    #[serde(default)]
    pub ended_ago_ms: Option<Ms>,
    /// How the engine's process ended.
    #[serde(default)]
    pub exit: Option<EngineExit>,
    /// The steps of the stop ladder that were taken.
    #[serde(default)]
    pub stages: Vec<StopStage>,
    /// The memory that its process tree held when the stop began, in bytes.
    #[serde(default)]
    pub freed_bytes: Option<i64>,
    /// What could not be freed, for people.
    #[serde(default)]
    pub not_freed: Vec<String>,
    /// How to take the conversation up again.
    #[serde(default)]
    pub resume: Option<ResumeCommand>,
    /// The engine's own id of the conversation that it held last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_session_id: Option<String>,
    /// The last lines of its standard error, when it never got to work.
    #[serde(default)]
    pub detail: Option<String>,
    /// What held its process tree together.
    #[serde(default)]
    pub containment: Option<String>,
}
