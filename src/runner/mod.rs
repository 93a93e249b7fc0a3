//! The daemon that owns the engines of one machine. The map, in reading order:
//!
//! - [`settings`] what it is told; `state_dir` the folder that is its own; [`Runner::open`] below
//! - `http` and `auth`: the routes of `/coding`; `verbs`, `start` and `stop` what they do
//! - `engine` one engine under one lock; `doings` what it is doing, pure; `engines` how each kind speaks
//! - `link` and `pump` talk with [`shim`], the parent of each engine; `life` follows one engine to its recorded end
//! - `recover` what an earlier life of the runner left; `survivors` what a killed shim left
//! - `records`, `intents`, `files` what is on disk; `process`, `usage` what the kernel shows
//! - [`bridge`] gives a server of OpenCode lines to speak
//! - [`sample`] small engines for a demonstration
//!
//! An engine is called gone only when the kernel says that nothing of it is left, and that is on disk.

mod auth;
pub mod bridge;
mod doings;
mod engine;
mod engines;
mod error;
mod files;
mod http;
mod intents;
mod life;
mod link;
mod process;
mod pump;
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
mod usage;
mod verbs;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use engines::AdapterKind;
pub use error::OpenError;
pub use settings::{EngineSpec, Settings};
pub use shim::wire::StopGraces;

use crate::protocol::{Origin, PROTOCOL};
use crate::runner::engine::{Ending, Engine, is_for};
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
    leaving: AtomicBool,
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
        let records = Records::load(&dir, &*settings.clock, &mut damaged).map_err(unusable)?;
        let shared = Shared {
            dir,
            boot_id,
            known: Mutex::new(Known { sessions: HashMap::new(), records }),
            gates: Mutex::default(),
            damaged: Mutex::new(damaged),
            ready: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
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

    fn is_leaving(&self) -> bool {
        self.shared.leaving.load(Ordering::Acquire)
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

    /// Returns how long a caller waits for a stop before it is told that it goes on without them.
    fn stop_most(&self) -> Duration {
        let most = self.settings().graces.longest() + crate::time::SECOND;
        Duration::from_millis(u64::try_from(most).unwrap_or(u64::MAX))
    }

    /// Stops every engine, and waits until they are gone or the time for that is over.
    ///
    /// What must be true: this runner was told to stop, by a person or by the machine that shuts down. Today its engines
    /// end with it, so none of them is asked about; new starts are refused from here on. An engine that is not gone in
    /// time gets no end record here: the next life of the runner looks for it.
    async fn leave(&self) {
        self.shared.leaving.store(true, Ordering::Release);
        let most = self.stop_most();
        let all = async {
            // Again, since a start may have been under way.
            loop {
                let sessions: Vec<_> = self.known().sessions.values().cloned().collect();
                if sessions.is_empty() {
                    break;
                }
                futures_util::future::join_all(sessions.iter().map(|session| self.let_go(session))).await;
            }
        };
        let _ = tokio::time::timeout(most, all).await;
    }

    /// Stops one engine since its runner leaves, and waits until it is gone.
    ///
    /// What must be true: [`Runner::leave`] is under way, and the engine's start has come to something, since a stop in
    /// the middle of it would have nobody to be told to.
    async fn let_go(&self, session: &Arc<Engine>) {
        session.started().await;
        let detail = Some("the runner was stopped, and its engines with it".to_owned());
        let ending = Ending { reason: "exited".to_owned(), detail, asked: true, ..Ending::default() };
        self.begin_stop(session, ending).await;
        session.gone().await;
    }
}

/// Answers on `listener` until `shutdown`, then stops every engine and returns.
///
/// # Errors
/// When the listener fails.
pub async fn serve(runner: Runner, listener: TcpListener, shutdown: CancellationToken) -> std::io::Result<()> {
    let recovering = tokio::spawn({
        let runner = runner.clone();
        let shutdown = shutdown.clone();
        async move { runner.recover(&shutdown).await }
    });
    let asked = shutdown.clone();
    let server = axum::serve(listener, http::router(runner.clone()))
        .with_graceful_shutdown(async move { asked.cancelled().await })
        .into_future();
    let server = tokio::spawn(server);
    shutdown.cancelled().await;
    let _ = recovering.await;
    runner.leave().await;
    // A client that keeps its connection open keeps nobody here.
    match tokio::time::timeout(Duration::from_secs(1), server).await {
        Ok(Ok(served)) => served,
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}
