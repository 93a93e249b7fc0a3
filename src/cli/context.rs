//! What every command starts from: the settings, where files lie, and the tools made of both.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{anyhow, bail};

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
    env: Environment,
}

impl Context {
    /// Reads the settings of this process; `file` is the one named by `--config`.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn load(file: Option<PathBuf>) -> Result<Self, ConfigError> {
        let env = Environment::of_process();
        let loaded = load(&Sources { file, env: env.clone() })?;
        Ok(Self { config: Arc::new(loaded.config), file: loaded.file, paths: Paths::new(env.clone()), env })
    }

    /// Returns the name of the person at the command line, for the timeline.
    #[must_use]
    pub fn person(&self) -> String {
        self.paths.owner(&self.config)
    }

    /// Returns whose sessions these are: the configured owner, else whose the store is already, else who runs this.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn owner(&self, store: &Store) -> Result<String, StoreError> {
        let found = if self.config.owner.is_empty() { store.find_owner().await? } else { None };
        Ok(found.unwrap_or_else(|| self.person()))
    }

    /// Returns whose sessions these are, as [`Context::owner`], provided that nobody else has any here.
    ///
    /// # Errors
    /// When a token or an open session is somebody else's: this version cannot keep two owners apart. When the store fails.
    pub async fn sole_owner(&self, store: &Store) -> anyhow::Result<String> {
        let owner = self.owner(store).await?;
        if let Some(other) = store.list_owners().await?.iter().find(|other| **other != owner) {
            bail!(
                "the store has tokens or open sessions of owner {other:?}, and this version serves one owner, here {owner:?}; see the setting `owner`"
            );
        }
        Ok(owner)
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
        if let Some(filter) = self.env.get(LOG_VARIABLE) {
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
    let runners = HttpRunners::new(&client_settings(config)).map_err(|why| anyhow!(why))?;
    Ok(Tools {
        store,
        runners: Arc::new(runners),
        clock: Arc::new(SystemClock),
        settings: CurrentConfig::new(config.clone()),
        metrics: Arc::new(Metrics::default()),
        worker_id: Id::new(),
    })
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
