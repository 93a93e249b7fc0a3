//! What every command starts from: the settings, where files lie, and the tools made of both.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};

use crate::clock::SystemClock;
use crate::config::{Config, ConfigError, Environment, LogConfig, Paths, Sources, load};
use crate::metrics::Metrics;
use crate::runner_client::{ClientSettings, HttpRunners};
use crate::session::Id;
use crate::store::{Store, StoreError};
use crate::tools::{CurrentConfig, Tools};

/// A filter of the log for this one call, whatever the settings say.
const LOG_VARIABLE: &str = "SEXTON_LOG";

/// The settings that hold, where they came from, and where files lie.
#[derive(Debug, Clone)]
pub struct Context {
    /// The settings.
    pub config: Arc<Config>,
    /// The file that they were read from, if there is one.
    pub file: Option<PathBuf>,
    /// Where files lie.
    pub paths: Paths,
    sources: Sources,
}

impl Context {
    /// Reads the settings of this process; `file` is the one named by `--config`.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn load(file: Option<PathBuf>) -> Result<Self, ConfigError> {
        Self::read(Sources { file, env: Environment::of_process() })
    }

    /// Reads the settings anew from the same sources: the same `--config`, the variables that this process was started
    /// with, and whatever stands in the file now.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn reload(&self) -> Result<Self, ConfigError> {
        Self::read(self.sources.clone())
    }

    fn read(sources: Sources) -> Result<Self, ConfigError> {
        let loaded = load(&sources)?;
        let paths = Paths::new(sources.env.clone());
        Ok(Self { config: Arc::new(loaded.config), file: loaded.file, paths, sources })
    }

    /// Returns the name of the person at the command line, for the timeline.
    #[must_use]
    pub fn person(&self) -> String {
        self.paths.owner(&self.config)
    }

    /// Returns whose what names nobody is: the configured owner, else whose the store is already, else who runs this.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn owner(&self, store: &Store) -> Result<String, StoreError> {
        let found = if self.config.owner.is_empty() { store.find_owner().await? } else { None };
        Ok(found.unwrap_or_else(|| self.person()))
    }

    /// Returns the owner as [`Context::owner`], who adopts the rows that have none; for a daemon at its start.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn settle_owner(&self, store: &Store) -> Result<String, StoreError> {
        let owner = self.owner(store).await?;
        let adopted = store.adopt_ownerless(&owner).await?;
        if adopted > 0 {
            tracing::info!(adopted, "sessions that had no owner are {owner}'s now");
        }
        for left in store.list_ownerless().await? {
            tracing::warn!(
                session_id = %left.id,
                "a session without an owner stays so: {owner} has another one open in {}; end one of the two",
                left.repo
            );
        }
        Ok(owner)
    }

    /// Returns a variable of this process; none when it is not set or not text.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        self.sources.env.get(name)?.to_str().map(str::to_owned)
    }

    /// Notes the limits that hold, for a process that sweeps: when they are not those that were used last, every session
    /// whose next look was put off is looked at again.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn note_limits(&self, store: &Store) -> anyhow::Result<()> {
        let limits = serde_json::to_string(&self.config.policy)?;
        if store.note_limits(&limits).await? {
            tracing::debug!("the limits have changed, so nothing is put off any more");
        }
        Ok(())
    }

    /// Returns the log's settings for a command that logs from the level `usual` on unless the settings ask for something
    /// else than the default: a daemon tells what it does, a command that prints what it did only what went wrong.
    #[must_use]
    pub fn log(&self, usual: &str) -> LogConfig {
        let mut log = self.config.log.clone();
        if log.filter == Config::defaults().log.filter {
            usual.clone_into(&mut log.filter);
        }
        if let Some(filter) = self.sources.env.get(LOG_VARIABLE) {
            log.filter = filter.to_string_lossy().into_owned();
        }
        log
    }

    /// Opens the store and makes everything that sweeps and verbs work with.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn tools(&self) -> anyhow::Result<Tools> {
        tools(&self.config, &self.paths).await
    }
}

/// Opens the store, making it when it is not there, and makes everything that sweeps and verbs work with.
///
/// # Errors
/// When the store cannot be used, or the HTTP client cannot be set up.
pub async fn tools(config: &Config, paths: &Paths) -> anyhow::Result<Tools> {
    let store = Store::open(&paths.store_url(config)?).await?;
    let roots = runner_ca(&config.server.runner_ca)?;
    let runners = HttpRunners::trusting(&client_settings(config), &roots).map_err(|why| anyhow!(why))?;
    Ok(Tools {
        store,
        runners: Arc::new(runners),
        clock: Arc::new(SystemClock),
        settings: CurrentConfig::new(config.clone()),
        metrics: Arc::new(Metrics::default()),
        worker_id: Id::new(),
    })
}

/// Reads the certificates that runners' own ones are checked against too.
fn runner_ca(file: &str) -> anyhow::Result<Vec<u8>> {
    if file.is_empty() {
        return Ok(Vec::new());
    }
    std::fs::read(file).with_context(|| format!("server.runner_ca: cannot read {file}"))
}

/// Returns the limits of the client under these settings.
#[must_use]
pub fn client_settings(config: &Config) -> ClientSettings {
    let limits = &config.limits;
    ClientSettings {
        connect_timeout: limits.connect_timeout,
        timeout: limits.request_timeout,
        end_timeout: limits.end_timeout,
        send_timeout: config.runner.send_timeout,
        response_bytes: limits.response_bytes.0,
    }
}
