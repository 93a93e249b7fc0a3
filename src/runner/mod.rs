//! The daemon that owns the engines of one machine. The map, in reading order:
//!
//! - [`settings`] what it is told; `state_dir` the folder that is its own; [`Runner::open`] below
//! - `http` and `auth`: the routes of `/coding`; `verbs`, `start`, `stop`, `talk`, `events`, `live` with its `draft`, and
//!   `history` what they do
//! - `engine` one engine under one lock; `doings` what it is doing, pure; `engines` how each kind speaks
//! - `attend` speaks with [`shim`], the parent of each engine, over a `link`, and reads its log by `output`; `listeners`
//!   who reads along; `life` the engine's end, up to its record
//! - `watch` what the runner does of its own accord; `heard` when a worker was last there
//! - `recover` what an earlier life of the runner left; `survivors` what a killed shim left
//! - `records`, `intents`, `files` what is on disk; `process`, `usage` what the kernel shows
//! - [`bridge`] gives a server of OpenCode lines to speak
//! - [`sample`] and `sample_agent`: small engines for a demonstration
//!
//! An engine is called gone only when the kernel says that nothing of it is left, and that is on disk.

mod attend;
mod auth;
pub mod bridge;
mod doings;
mod draft;
mod engine;
mod engines;
mod error;
mod events;
mod files;
mod heard;
mod history;
mod http;
mod intents;
mod life;
mod link;
mod listeners;
mod live;
mod output;
mod process;
mod records;
mod recover;
mod refusal;
pub mod sample;
mod sample_agent;
pub mod settings;
pub mod shim;
mod start;
mod state_dir;
mod stop;
mod survivors;
mod talk;
mod usage;
mod verbs;
mod watch;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use engines::AdapterKind;
pub use error::OpenError;
pub use settings::{CgroupChoice, EngineSpec, Settings, StreamLimits};
pub use shim::wire::{Containment, StopGraces};

use crate::network::{self, Listener, ServeLimits};
use crate::protocol::{Origin, PROTOCOL};
use crate::runner::engine::{Engine, is_for};
use crate::runner::heard::Heard;
use crate::runner::records::Records;
use crate::runner::state_dir::StateDir;
use crate::session::Id;

/// A runner on its state folder. Clones are the same runner.
#[derive(Clone)]
pub struct Runner {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    dir: StateDir,
    boot_id: String,
    known: Mutex<Known>,
    /// One per session that was ever asked to start: only one start at a time.
    gates: Mutex<HashMap<Id, Arc<tokio::sync::Mutex<()>>>>,
    damaged: Mutex<Vec<String>>,
    ready: AtomicBool,
    /// Cancelled when this process is about to go; its engines stay.
    leaving: CancellationToken,
    /// Cancelled when nobody is spoken with any more.
    parted: CancellationToken,
    /// Whoever speaks with a shim or a client.
    tasks: TaskTracker,
    /// When somebody who may was last heard.
    heard: Heard,
    /// The folder of control groups that engines get theirs in.
    cgroup: Option<PathBuf>,
}

/// The engines that it holds, and those that it remembers. An engine moves from one to the other under one lock, so no
/// list ever misses it.
#[derive(Default)]
struct Known {
    sessions: HashMap<Id, Arc<Engine>>,
    records: Records,
}

impl Runner {
    /// Takes the state folder and reads the end records; [`serve`] then looks for what an earlier life left.
    ///
    /// # Errors
    /// When the folder is in use, belongs to another runner, or cannot be read or written.
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        let dir = StateDir::take(&settings.state_dir, &settings.runner_id)?;
        let unusable = |error| OpenError::Io(settings.state_dir.clone(), error);
        let boot_id = process::boot_id().map_err(unusable)?;
        let mut damaged = dir.quarantined();
        let mut records = Records::load(&dir, &*settings.clock, &mut damaged).map_err(unusable)?;
        if let Some(owner) = &settings.owner {
            for record in records.adopt(owner) {
                records::write(&dir, &record).map_err(unusable)?;
            }
        }
        let (root, idle_rule) = (&settings.state_dir, settings.idle_after.is_some());
        let heard = Heard::open(root, idle_rule, &boot_id, settings.clock.awake()).map_err(unusable)?;
        let shared = Shared {
            dir,
            boot_id,
            known: Mutex::new(Known { sessions: HashMap::new(), records }),
            gates: Mutex::default(),
            damaged: Mutex::new(damaged),
            ready: AtomicBool::new(false),
            leaving: CancellationToken::new(),
            parted: CancellationToken::new(),
            tasks: TaskTracker::new(),
            heard,
            cgroup: settings.cgroup.folder(),
            settings,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns how often the state folder was started from, this time included.
    #[must_use]
    pub fn epoch(&self) -> i64 {
        self.shared.dir.epoch
    }

    fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    fn dir(&self) -> &StateDir {
        &self.shared.dir
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn damaged(&self) -> MutexGuard<'_, Vec<String>> {
        self.shared.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ready(&self) -> bool {
        self.shared.ready.load(Ordering::Acquire)
    }

    fn origin(&self) -> Origin {
        Origin {
            protocol: PROTOCOL,
            runner_id: self.settings().runner_id.clone(),
            epoch: self.epoch(),
            ready: self.is_ready(),
        }
    }

    fn session(&self, id: &Id) -> Option<Arc<Engine>> {
        self.known().sessions.get(id).cloned()
    }

    /// Returns the session's engine, if a call on behalf of `owner` may know of it.
    fn session_of(&self, id: &Id, owner: Option<&str>) -> Option<Arc<Engine>> {
        self.session(id).filter(|session| is_for(owner, session.owner_id.as_deref()))
    }
}

impl Known {
    /// Returns the engines that hold the conversation, or say so.
    fn holders(&self, engine_session_id: &str) -> impl Iterator<Item = &Arc<Engine>> {
        let holds =
            move |session: &&Arc<Engine>| session.facts().engine_session_id.as_deref() == Some(engine_session_id);
        self.sessions.values().filter(holds)
    }

    /// Returns whether an engine of anybody but `owner` holds the conversation, or held it when it ended.
    fn is_anothers(&self, engine_session_id: &str, owner: Option<&str>) -> bool {
        self.holders(engine_session_id).any(|holder| holder.owner_id.as_deref() != owner)
            || self.records.of_conversation(engine_session_id).any(|record| record.owner_id.as_deref() != owner)
    }
}

/// Answers on `listener` until `shutdown`, and returns. The engines go on: the next runner on the folder finds them.
///
/// # Errors
/// When the listener has no address.
pub async fn serve(runner: Runner, listener: impl Into<Listener>, shutdown: CancellationToken) -> std::io::Result<()> {
    let listener: Listener = listener.into();
    let names = listener.names()?;
    if let Err(error) = listener.let_go_after(runner.settings().streams.silent_most) {
        tracing::warn!(%error, "clients that the network does not reach any more are given up late");
    }
    let recovering = tokio::spawn({
        let (runner, shutdown) = (runner.clone(), shutdown.clone());
        async move { runner.recover(&shutdown).await }
    });
    let watching = tokio::spawn({
        let (runner, shutdown) = (runner.clone(), shutdown.clone());
        async move { runner.watch(&shutdown).await }
    });
    let router = http::router(runner.clone(), names);
    let server = tokio::spawn(network::serve(listener, router, ServeLimits::usual(), shutdown.clone()));
    shutdown.cancelled().await;
    runner.shared.leaving.cancel();
    let _ = recovering.await;
    let _ = watching.await;
    runner.keep_notes().await;
    // A client that keeps its connection open keeps nobody here.
    let _ = tokio::time::timeout(Duration::from_secs(1), server).await;
    runner.shared.parted.cancel();
    runner.shared.tasks.close();
    let _ = tokio::time::timeout(Duration::from_secs(2), runner.shared.tasks.wait()).await;
    Ok(())
}
