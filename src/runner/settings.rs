//! What a runner is told at its start.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use crate::runner::shim::wire::SEGMENT_BYTES;

use crate::clock::Clock;
use crate::protocol::StopLimits;
use crate::runner::engines::AdapterKind;
use crate::runner::shim::cgroup;
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
    /// The `sexton` program, for engines that need a bridge.
    pub program: PathBuf,
    /// The program of the shims and its arguments, to which the session's folder is added.
    pub shim: Vec<String>,
    /// The engines that it can start, by name.
    pub engines: BTreeMap<String, EngineSpec>,
    /// The limits of a stop.
    pub graces: StopGraces,
    /// An engine that leaves within this time of its start never started, in milliseconds.
    pub start_settle: Ms,
    /// A turn that was silent for this long is shown as stalled, in milliseconds.
    pub stall_after: Ms,
    /// Whether such a turn is interrupted at once.
    pub interrupt_stalled: bool,
    /// How often the runner looks after its engines of its own accord, in milliseconds.
    pub heartbeat: Ms,
    /// When no worker was heard for this long, the runner itself stops engines as idle as `limits` say; none = never.
    pub idle_after: Option<Ms>,
    /// The limits of such a stop.
    pub limits: StopLimits,
    /// How long a caller may wait for the end of a turn, in milliseconds.
    pub send_timeout: Ms,
    /// The limits of a client that listens.
    pub streams: StreamLimits,
    /// How many bytes of an engine's output are kept.
    pub output_bytes: u64,
    /// How many bytes one segment of it has.
    pub segment_bytes: u64,
    /// How long what an ended engine had written is kept, in milliseconds.
    pub output_kept: Ms,
    /// Whether engines get control groups of their own.
    pub cgroup: CgroupChoice,
    /// Who owns what was started on nobody's behalf.
    pub owner: Option<String>,
    /// Where it reads the time.
    pub clock: Arc<dyn Clock>,
}

impl Settings {
    /// Returns the engines that are on this machine.
    #[must_use]
    pub fn engines_here(&self) -> Vec<String> {
        self.engines.iter().filter(|(_, spec)| spec.is_here()).map(|(name, _)| name.clone()).collect()
    }
}

/// How long a stream of events, or whoever listens to it, may be silent; no setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// How often a client hears something even when the engine says nothing.
    pub ping_every: Duration,
    /// A client that takes nothing for this long is let go.
    pub silent_most: Duration,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { ping_every: Duration::from_secs(20), silent_most: Duration::from_secs(60) }
    }
}

/// Whether engines get control groups of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CgroupChoice {
    /// Where a folder for them was delegated.
    #[default]
    Auto,
    /// Never.
    Off,
    /// In this folder.
    At(PathBuf),
}

impl CgroupChoice {
    /// Returns the folder that engines get their control groups in.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::Auto => cgroup::delegated(),
            Self::Off => None,
            Self::At(folder) => Some(folder.clone()),
        }
    }
}

/// How often the runner looks after its engines of its own accord, in milliseconds; no setting.
pub const HEARTBEAT: Ms = 5 * SECOND;
/// An engine that leaves within this time of its start never started, in milliseconds; no setting.
pub const START_SETTLE: Ms = 500;
/// What an engine that left by itself leaves behind may stay for this long, in milliseconds; no setting.
pub const LINGER: Ms = 10 * SECOND;

#[cfg(test)]
impl Settings {
    /// Makes settings for a test, with everything in `home` and the secret `s`.
    pub(crate) fn in_home(home: &Path) -> Self {
        std::fs::write(home.join("secret"), "s").unwrap();
        Self {
            runner_id: "r".parse().unwrap(),
            state_dir: home.join("state"),
            secret_file: home.join("secret"),
            program: PathBuf::from("/no/such/program"),
            shim: vec!["/no/such/program".to_owned()],
            engines: BTreeMap::new(),
            graces: StopGraces { interrupt: 1, stdin: 1, engine: 1, tree: 1, kill: 1, linger: 1 },
            start_settle: 1,
            stall_after: SECOND,
            interrupt_stalled: false,
            heartbeat: SECOND,
            idle_after: None,
            limits: StopLimits { quiet_for_ms: 1, awaiting_for_ms: 1, stalled_for_ms: 1, background_for_ms: 1 },
            send_timeout: SECOND,
            streams: StreamLimits::default(),
            output_bytes: 1 << 20,
            segment_bytes: SEGMENT_BYTES,
            output_kept: SECOND,
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
    /// Variables that reach it from the runner's environment besides the usual ones; `*` at the end stands for any rest.
    pub pass_env: Vec<String>,
    /// The limits of its stop, where they are others than the runner's.
    pub stop: Option<StopGraces>,
}

impl EngineSpec {
    /// Returns whether its program is on this machine.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.command.first().is_some_and(|program| find_program(program).is_some())
    }
}

impl Default for EngineSpec {
    fn default() -> Self {
        let adapter = AdapterKind::Lines;
        Self {
            adapter,
            command: Vec::new(),
            env: BTreeMap::new(),
            resume: Vec::new(),
            pass_env: Vec::new(),
            stop: None,
        }
    }
}

/// Returns the program of the shims: the small one where it lies beside `sexton`, else a mode of that itself.
#[must_use]
pub fn shim_program(sexton: &Path) -> Vec<String> {
    let small = sexton.with_file_name("sexton-shim");
    if small.is_file() {
        return vec![small.display().to_string()];
    }
    vec![sexton.display().to_string(), "shim".to_owned()]
}

/// Returns where a program lies that is named by a path or to be found in `PATH`.
#[must_use]
pub fn find_program(program: &str) -> Option<PathBuf> {
    let runs = |path: &Path| path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| runs(path));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| runs(path))
}
