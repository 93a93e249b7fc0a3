//! What a runner is told at its start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::Clock;
use crate::runner::engines::AdapterKind;
use crate::runner::shim::wire::StopGraces;
use crate::session::Id;
use crate::time::{Ms, SECOND};

/// Everything that a runner is told at its start.
#[derive(Clone)]
pub struct Settings {
    /// Its identity. The state folder keeps it, and refuses another one.
    pub runner_id: Id,
    /// The folder of its state; it makes it, and shares it with no other runner.
    pub state_dir: PathBuf,
    /// The file with the secret that callers must show; read whenever it is needed, so it may be made or changed later.
    pub secret_file: PathBuf,
    /// The `sexton` program, for the shims.
    pub program: PathBuf,
    /// The engines that it can start, by name.
    pub engines: BTreeMap<String, EngineSpec>,
    /// The limits of a stop.
    pub graces: StopGraces,
    /// An engine that leaves within this time of its start never started, in milliseconds.
    pub start_settle: Ms,
    /// A turn that was silent for this long is shown as stalled, in milliseconds.
    pub stall_after: Ms,
    /// Where it reads the time.
    pub clock: Arc<dyn Clock>,
}

/// An engine that leaves within this time of its start never started, in milliseconds; no setting.
pub const START_SETTLE: Ms = 500;
/// What an engine that left by itself leaves behind may stay for this long, in milliseconds; no setting.
pub const LINGER: Ms = 10 * SECOND;

#[cfg(test)]
impl Settings {
    /// Makes settings for a test, with everything in `home` and the secret `s`.
    pub(crate) fn in_home(home: &std::path::Path) -> Self {
        std::fs::write(home.join("secret"), "s").unwrap();
        Self {
            runner_id: "r".parse().unwrap(),
            state_dir: home.join("state"),
            secret_file: home.join("secret"),
            program: PathBuf::from("/no/such/program"),
            engines: BTreeMap::new(),
            graces: StopGraces { interrupt: 1, stdin: 1, engine: 1, tree: 1, kill: 1, linger: 1 },
            start_settle: 1,
            stall_after: SECOND,
            clock: Arc::new(crate::clock::SystemClock),
        }
    }
}

/// One engine of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineSpec {
    /// How it speaks.
    pub adapter: AdapterKind,
    /// The program and its arguments; never given to a shell.
    pub command: Vec<String>,
    /// Environment variables in addition to the few that every engine gets.
    pub env: BTreeMap<String, String>,
    /// The command that takes a conversation up again; `{engine_session_id}` stands for its id. Empty when there is none.
    pub resume: Vec<String>,
}

impl Default for EngineSpec {
    fn default() -> Self {
        let adapter = AdapterKind::Lines;
        Self { adapter, command: Vec::new(), env: BTreeMap::new(), resume: Vec::new() }
    }
}
