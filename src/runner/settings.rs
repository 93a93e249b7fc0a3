//! What a runner is told at its start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::Clock;
use crate::protocol::StopLimits;
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
    /// The limits of a stop, for an engine that has none of its own.
    pub graces: StopGraces,
    /// An engine that leaves within this time of its start never started, in milliseconds.
    pub start_settle: Ms,
    /// A turn that was silent for this long is shown as stalled, in milliseconds.
    pub stall_after: Ms,
    /// A stalled turn is interrupted at once instead of merely being shown.
    pub interrupt_stalled: bool,
    /// Its own idle rule holds once no worker was heard for this long, in milliseconds; none when it has no such rule.
    pub idle_after: Option<Ms>,
    /// The condition under which its own idle rule stops an engine.
    pub limits: StopLimits,
    /// How long a caller may wait for the end of a turn, in milliseconds.
    pub send_timeout: Ms,
    /// How much of an engine's output is kept, in bytes.
    pub output_bytes: u64,
    /// How long the output of an engine that has ended is kept, in milliseconds.
    pub output_kept: Ms,
    /// Where engines get a cgroup of their own.
    pub cgroup: CgroupChoice,
    /// Whose the sessions are that have no owner, from before there were any.
    pub owner: Option<String>,
    /// Where it reads the time.
    pub clock: Arc<dyn Clock>,
}

/// An engine that leaves within this time of its start never started, in milliseconds; no setting.
pub const START_SETTLE: Ms = 500;
/// What an engine that left by itself leaves behind may stay for this long, in milliseconds; no setting.
pub const LINGER: Ms = 10 * SECOND;

/// Where the engines get a cgroup of their own, in which nothing of one can get lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CgroupChoice {
    /// Below the runner's own one, when that was handed over to it.
    Auto,
    /// Nowhere.
    Off,
    /// Below this folder of a cgroup version 2 tree, which was handed over to the runner's user.
    At(PathBuf),
}

#[cfg(test)]
impl Settings {
    /// Makes settings for a test, with everything in `home` and the secret `s`.
    pub(crate) fn in_home(home: &std::path::Path) -> Self {
        use crate::time::HOUR;
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
            interrupt_stalled: false,
            idle_after: None,
            limits: StopLimits {
                quiet_for_ms: HOUR,
                awaiting_for_ms: HOUR,
                stalled_for_ms: HOUR,
                background_for_ms: HOUR,
            },
            send_timeout: SECOND,
            output_bytes: 1 << 20,
            output_kept: HOUR,
            cgroup: CgroupChoice::Off,
            owner: None,
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
    /// More variables of the runner's environment that it gets; a name that ends with `*` stands for all that begin so.
    pub pass_env: Vec<String>,
    /// The limits of its stop, where they are not the runner's.
    pub stop: Option<StopGraces>,
}

impl Default for EngineSpec {
    fn default() -> Self {
        Self {
            adapter: AdapterKind::Lines,
            command: Vec::new(),
            env: BTreeMap::new(),
            resume: Vec::new(),
            pass_env: Vec::new(),
            stop: None,
        }
    }
}
