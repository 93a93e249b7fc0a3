//! `sexton runner`: the daemon that owns the engines of this machine.

use std::sync::Arc;

use anyhow::Context as _;

use crate::cli::args::RunnerArgs;
use crate::cli::output::Outcome;
use crate::cli::{Context, listen, secret, signals};
use crate::clock::SystemClock;
use crate::config::{Config, RunnerConfig};
use crate::runner::settings::{LINGER, START_SETTLE};
use crate::runner::{EngineSpec, Runner, Settings, StopGraces, serve};

/// Runs the runner until SIGTERM or Ctrl-C.
///
/// # Errors
/// When its port, its state folder or its secret cannot be used.
pub(crate) async fn run(context: &Context, args: RunnerArgs) -> anyhow::Result<Outcome> {
    if args.detach {
        // Away from the terminal of whoever starts it, so that a Ctrl-C there is not for it too. It fails for the leader
        // of a group, which is away already.
        let _ = rustix::process::setsid();
    }
    let shutdown = signals::shutdown()?;
    let listener = listen::bind("runner.listen", context.config.runner.listen).await?;
    let settings = settings(context)?;
    let secret_file = &settings.secret_file;
    secret::ensure(secret_file).with_context(|| format!("cannot make the secret {}", secret_file.display()))?;
    let (id, address) = (settings.runner_id.clone(), listener.local_addr()?);
    let runner = Runner::open(settings)?;
    tracing::info!(runner_id = %id, %address, epoch = runner.epoch(), "the runner listens");
    serve(runner, listener, shutdown).await.context("the runner cannot listen any more")?;
    tracing::info!(runner_id = %id, "the runner has stopped");
    Ok(Outcome::Done)
}

fn settings(context: &Context) -> anyhow::Result<Settings> {
    let config = &*context.config;
    let state_dir = std::path::absolute(context.paths.runner_state_dir(config)?)?;
    let secret_file = std::path::absolute(context.paths.runner_token_file(config)?)?;
    Ok(Settings {
        runner_id: config.runner.id.clone(),
        state_dir,
        secret_file,
        program: std::env::current_exe().context("cannot tell which program this is")?,
        engines: engines(config),
        graces: graces(&config.runner),
        start_settle: START_SETTLE,
        stall_after: config.policy.advanced.stall_after.0,
        clock: Arc::new(SystemClock),
    })
}

fn engines(config: &Config) -> std::collections::BTreeMap<String, EngineSpec> {
    let specs = config.engines.iter().map(|(name, engine)| {
        let spec = EngineSpec {
            command: engine.command.clone(),
            env: engine.env.clone(),
            resume: engine.resume.clone(),
            ..EngineSpec::default()
        };
        (name.clone(), spec)
    });
    specs.collect()
}

/// Returns the limits of a stop by the configuration.
#[must_use]
pub(crate) fn graces(config: &RunnerConfig) -> StopGraces {
    StopGraces {
        interrupt: 0,
        stdin: config.stdin_grace.0,
        engine: config.engine_term_grace.0,
        tree: config.tree_term_grace.0,
        kill: config.kill_limit.0,
        linger: LINGER,
    }
}
