//! What is looked at: the thin layer that touches the world and judges nothing.

mod ini;
mod machine;
mod places;
mod runners;
mod store;
mod units;
mod webhooks;

use std::path::{Path, PathBuf};

use crate::cli::Context;
use crate::cli::doctor::checks::disk::Folder;
use crate::cli::doctor::checks::engines::EngineFacts;
use crate::cli::doctor::checks::logout::{MachineFacts, Place};
use crate::cli::doctor::checks::network::NetworkFacts;
use crate::cli::doctor::checks::runners::RunnerFacts;
use crate::cli::doctor::checks::schedule::ScheduleFacts;
use crate::cli::doctor::checks::store::StoreFacts;
use crate::cli::doctor::checks::units::UnitFacts;
use crate::cli::doctor::checks::webhooks::WebhookFacts;
use crate::cli::listen::Door;
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::cron::Expression;
use crate::telemetry;
use crate::time::UtcMs;

/// Everything that the checks judge.
pub(crate) struct Facts {
    /// When this was looked at.
    pub(crate) now: UtcMs,
    /// The settings file, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// Why no log can be kept, and so no other command runs.
    pub(crate) log_fault: Option<String>,
    /// Whose sessions these are.
    pub(crate) owner: String,
    /// The store.
    pub(crate) store: StoreFacts,
    /// The enrolled runners.
    pub(crate) runners: Vec<RunnerFacts>,
    /// Where the daemons listen.
    pub(crate) network: NetworkFacts,
    /// What this machine does at a logout.
    pub(crate) machine: MachineFacts,
    /// Where processes of its runners are.
    pub(crate) places: Vec<Place>,
    /// The units that run, or would run, a runner.
    pub(crate) units: Vec<UnitFacts>,
    /// The folders that state lies in.
    pub(crate) folders: Vec<Folder>,
    /// The engines of the settings.
    pub(crate) engines: Vec<EngineFacts>,
    /// When passes are due.
    pub(crate) schedule: ScheduleFacts,
    /// The webhooks of the settings.
    pub(crate) webhooks: Vec<WebhookFacts>,
}

/// Looks at everything. What cannot be looked at is a fact too.
pub(crate) async fn gather(context: &Context) -> Facts {
    let (store, tools) = store::look(context).await;
    let (runners, processes) = match &tools {
        Some(tools) => runners::ask(tools).await,
        None => (Vec::new(), Vec::new()),
    };
    let owner = match &tools {
        Some(tools) => context.owner(&tools.store).await.unwrap_or_else(|_| context.person()),
        None => context.person(),
    };
    if let Some(tools) = &tools {
        tools.store.close().await;
    }
    let places = places::of_processes(&processes);
    let machine = machine::look(Path::new("/"), &context.paths.user());
    let units = units::look(context, machine.systemd, &places).await;
    let config = &context.config;
    Facts {
        now: SystemClock.now(),
        file: context.file.clone(),
        log_fault: telemetry::filter(&context.log("warn").filter).err(),
        folders: places::folders(context, !places.is_empty()).await,
        engines: engines(context, &runners),
        network: network(config),
        schedule: schedule(config),
        webhooks: webhooks::look(config).await,
        owner,
        store,
        runners,
        machine,
        places,
        units,
    }
}

fn network(config: &Config) -> NetworkFacts {
    let doors = [Door::from(&config.server), Door::from(&config.runner)];
    let open = doors.iter().filter(|door| door.is_open_to_read()).map(Door::warning).collect();
    NetworkFacts { open, faults: doors.iter().filter_map(|door| door.tls().err()).collect() }
}

fn schedule(config: &Config) -> ScheduleFacts {
    let due = Expression::parse(&config.schedule.sweep, &config.schedule.timezone).ok();
    ScheduleFacts { due, paused: config.safety.paused }
}

fn engines(context: &Context, runners: &[RunnerFacts]) -> Vec<EngineFacts> {
    let (config, shipped) = (&context.config, Config::defaults());
    let local = runners.iter().find(|runner| runner.id == config.runner.id).and_then(|runner| runner.health.as_ref());
    let facts = config.engines.iter().map(|(name, engine)| {
        let program = engine.command.first().cloned().unwrap_or_default();
        EngineFacts {
            found: places::program(&program, context.paths.search_path().as_deref()),
            shipped: shipped.engines.get(name) == Some(engine),
            offered: local.map(|health| health.engines.contains(name)),
            name: name.clone(),
            program,
        }
    });
    facts.collect()
}
