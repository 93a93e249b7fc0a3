//! What a runner is told at its start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::{Clock, SystemClock};
use crate::runner::shim::wire::StopGraces;
use crate::session::Id;
use crate::time::{MINUTE, Ms};

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

impl Settings {
    /// Makes settings with the defaults: no engines, the program that runs now, the machine's clocks.
    ///
    /// # Errors
    /// When the path of the running program cannot be told.
    pub fn new(runner_id: Id, state_dir: PathBuf, secret_file: PathBuf) -> std::io::Result<Self> {
        Ok(Self {
            runner_id,
            state_dir,
            secret_file,
            program: std::env::current_exe()?,
            engines: BTreeMap::new(),
            graces: StopGraces::default(),
            start_settle: 500,
            stall_after: 30 * MINUTE,
            clock: Arc::new(SystemClock),
        })
    }
}

/// One engine of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineSpec {
    /// The program and its arguments; never given to a shell.
    pub command: Vec<String>,
    /// Environment variables in addition to the few that every engine gets.
    pub env: BTreeMap<String, String>,
    /// The command that takes a conversation up again; `{engine_session_id}` stands for its id. Empty when there is none.
    pub resume: Vec<String>,
}
