//! `sexton runner`: the daemon that owns the engines of this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;

use crate::cli::args::RunnerArgs;
use crate::cli::output::Outcome;
use crate::cli::{Context, listen, secret, signals};
use crate::clock::SystemClock;
use crate::config::{Config, EngineConfig, Ladder, RunnerConfig, StopConfig};
use crate::protocol::StopLimits;
use crate::runner::settings::{HEARTBEAT, LINGER, SEGMENT_BYTES, START_SETTLE, shim_program};
use crate::runner::{CgroupChoice, EngineSpec, Runner, Settings, StopGraces, StreamLimits, serve};

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
    let listener = listen::bind(&context.config.runner).await?;
    let settings = settings(context)?;
    let secret_file = &settings.secret_file;
    secret::ensure(secret_file).with_context(|| format!("cannot make the secret {}", secret_file.display()))?;
    let (id, address) = (settings.runner_id.clone(), listener.address()?);
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
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    Ok(Settings {
        state_dir,
        secret_file,
        shim: shim_program(&program),
        program,
        engines: config.engines.iter().map(|(name, engine)| (name.clone(), spec(&config.runner, engine))).collect(),
        owner: Some(context.person()),
        ..limits(config)
    })
}

/// Returns settings with every limit of the configuration, and nothing yet of where things lie and what is started.
#[must_use]
pub(crate) fn limits(config: &Config) -> Settings {
    let RunnerConfig { idle_after, interrupt_stalled, send_timeout, output_bytes, output_kept, .. } = &config.runner;
    let idle_after = (idle_after.0 > 0).then_some(idle_after.0);
    // It knows neither rows nor rules, so it goes by the longest of each limit.
    let longest = config.policy.longest_stop_limits();
    Settings {
        runner_id: config.runner.id.clone(),
        state_dir: PathBuf::new(),
        secret_file: PathBuf::new(),
        program: PathBuf::new(),
        shim: Vec::new(),
        engines: BTreeMap::new(),
        graces: graces(config.runner.ladder(StopConfig::default())),
        start_settle: START_SETTLE,
        stall_after: longest.stalled_for_ms,
        interrupt_stalled: *interrupt_stalled,
        idle_after,
        // Where the rule is off, its limits are the worker's: they are never those of nothing.
        limits: StopLimits { quiet_for_ms: idle_after.unwrap_or(longest.quiet_for_ms), ..longest },
        send_timeout: send_timeout.0,
        output_bytes: u64::try_from(output_bytes.0).unwrap_or(u64::MAX),
        segment_bytes: SEGMENT_BYTES,
        output_kept: output_kept.0,
        heartbeat: HEARTBEAT,
        streams: StreamLimits::default(),
        cgroup: cgroup(&config.runner.cgroup),
        owner: None,
        clock: Arc::new(SystemClock),
    }
}

fn spec(runner: &RunnerConfig, engine: &EngineConfig) -> EngineSpec {
    EngineSpec {
        adapter: engine.adapter,
        command: engine.command.clone(),
        env: engine.env.clone(),
        resume: engine.resume.clone(),
        pass_env: engine.pass_env.clone(),
        stop: (!engine.stop.is_empty()).then(|| graces(runner.ladder(engine.stop))),
    }
}

fn graces(ladder: Ladder) -> StopGraces {
    StopGraces {
        interrupt: ladder.interrupt.0,
        stdin: ladder.stdin.0,
        engine: ladder.engine.0,
        tree: ladder.tree.0,
        kill: ladder.kill.0,
        linger: LINGER,
    }
}

fn cgroup(setting: &str) -> CgroupChoice {
    match setting {
        "auto" => CgroupChoice::Auto,
        "off" => CgroupChoice::Off,
        folder => CgroupChoice::At(PathBuf::from(folder)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Rule;
    use crate::time::{HOUR, MINUTE, SECOND, Span};

    #[test]
    fn the_limits_reach_the_runner() {
        let mut config = Config::defaults();
        let shipped = limits(&config);
        assert_eq!((shipped.idle_after, shipped.limits.quiet_for_ms), (None, 6 * HOUR));
        assert_eq!((shipped.send_timeout, shipped.output_bytes), (30 * MINUTE, 256 << 20));
        assert_eq!((shipped.graces.interrupt, shipped.graces.stdin), (2 * SECOND, 10 * SECOND));
        assert_eq!(shipped.cgroup, CgroupChoice::Auto);
        config.runner.idle_after = Span(8 * HOUR);
        "/sys/fs/cgroup/x".clone_into(&mut config.runner.cgroup);
        let changed = limits(&config);
        assert_eq!((changed.idle_after, changed.limits.quiet_for_ms), (Some(8 * HOUR), 8 * HOUR));
        assert_eq!(changed.cgroup, CgroupChoice::At("/sys/fs/cgroup/x".into()));
    }

    #[test]
    fn without_rules_of_its_own_it_goes_by_the_longest_of_each_limit() {
        let mut config = Config::defaults();
        let long = Rule { stall_after: Some(Span(HOUR)), background_max: Some(Span(30 * HOUR)), ..Rule::default() };
        let short = Rule { stall_after: Some(Span(MINUTE)), awaiting_after: Some(Span(HOUR)), ..Rule::default() };
        config.policy.rule = vec![long, short].into();
        let settings = limits(&config);
        assert_eq!((settings.stall_after, settings.limits.stalled_for_ms), (HOUR, HOUR));
        assert_eq!((settings.limits.background_for_ms, settings.limits.awaiting_for_ms), (30 * HOUR, 24 * HOUR));
    }

    #[test]
    fn an_engines_own_steps_reach_the_runner() {
        let config = Config::defaults();
        let mut engine = config.engines["claude"].clone();
        assert_eq!(spec(&config.runner, &engine).stop, None);
        engine.stop.stdin_grace = Some(Span(SECOND));
        engine.pass_env = vec!["ANTHROPIC_*".to_owned()];
        let spec = spec(&config.runner, &engine);
        assert_eq!(
            spec.stop.map(|stop| (stop.interrupt, stop.stdin, stop.kill)),
            Some((2 * SECOND, SECOND, 5 * SECOND))
        );
        assert_eq!(spec.pass_env, ["ANTHROPIC_*"]);
    }
}
