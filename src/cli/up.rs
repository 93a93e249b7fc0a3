//! `sexton up`: worker and runner together on this machine, without any set-up.
//!
//! The runner is a process of its own: it outlives the worker, and the next `up` finds it again.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::api;
use crate::cli::args::UpArgs;
use crate::cli::enrol::{enrol, health, local_runner};
use crate::cli::output::{self, Outcome, escape};
use crate::cli::{Context, demo, listen, reload, secret, signals, tokens};
use crate::runner_client::NoAnswer;
use crate::session::Runner;
use crate::token;
use crate::tools::Tools;

/// How long a new runner has until it is ready.
const READY: Duration = Duration::from_secs(15);
/// How long it is left alone between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// How often it is looked whether the runner is still there.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The log of a runner that this starts, in the state folder.
const LOG: &str = "runner.log";

/// Runs the worker until SIGTERM or Ctrl-C, with a runner beside it that goes on. SIGHUP lets the worker read its settings
/// again where it has no terminal; the runner follows when it is started again.
///
/// # Errors
/// When a port, the store or the runner cannot be used.
pub(crate) async fn run(context: &Context, args: UpArgs) -> anyhow::Result<Outcome> {
    if args.demo {
        return demo::run(args.once, signals::shutdown()?).await;
    }
    let (shutdown, hangup) = signals::of_daemon()?;
    let listener = listen::bind(&context.config.server).await?;
    let tools = context.tools().await?;
    let owner = context.settle_owner(&tools.store).await?;
    context.note_limits(&tools.store).await?;
    let local = local_runner(context, &tools)?;
    find_or_start(context, &tools, (&local, &owner)).await?;
    enrol(&tools, &local).await?;
    let token_file = make_token(context, &tools, &owner).await?;
    output::line(format_args!(
        "The API answers at {}://{}, its token lies in {}; runner {} is at {}.",
        listener.scheme(),
        listener.address()?,
        escape(&token_file.display().to_string()),
        local.id,
        local.url
    ))?;
    let (keeping, ours) = (tools.clone(), owner.clone());
    let serving = async {
        tokio::select! {
            served = api::serve(tools, owner, listener, shutdown) => served,
            () = keep_runner(context, &keeping, (&local, &ours)) => Ok(()),
        }
    };
    let served = reload::beside(context, &keeping, hangup, serving).await;
    output::remark(format_args!(
        "The worker has stopped. Runner {} and its engines go on; `sexton up` finds them again.",
        local.id
    ));
    served.map(|()| Outcome::Done)
}

/// Leaves a runner of ours that answers alone, and starts one where nothing listens.
async fn find_or_start(context: &Context, tools: &Tools, (local, owner): (&Runner, &str)) -> anyhow::Result<()> {
    // Made here, so that a runner can be asked before there ever was one.
    let secret_file = context.paths.runner_token_file(&context.config)?;
    secret::ensure(&secret_file).with_context(|| format!("cannot make the secret {}", secret_file.display()))?;
    match timeout(READY, until_ready(context, tools, (local, owner))).await {
        Ok(ready) => ready,
        Err(_) => {
            let log = context.paths.state_dir()?.join(LOG);
            bail!("runner {} is not ready after {} s; see {}", local.id, READY.as_secs(), log.display())
        }
    }
}

/// Asks until the runner is ready, and starts it once when nothing listens.
async fn until_ready(context: &Context, tools: &Tools, (local, owner): (&Runner, &str)) -> anyhow::Result<()> {
    let mut started: Option<(Child, PathBuf)> = None;
    loop {
        match (health(tools, local).await, &mut started) {
            (Ok(health), _) if health.origin.ready => {
                if started.is_none() {
                    tell_of_the_old_one(local, health.pid);
                }
                watch(started);
                return Ok(());
            }
            (Ok(_), _) => {}
            (Err(NoAnswer::Unconnected(_)), None) => started = Some(start(context, owner).await?),
            (Err(NoAnswer::Unconnected(_)), Some((child, log))) => check(child, log)?,
            (Err(why), _) => bail!(
                "what answers at {} is not this machine's runner {}: {}; stop it, or set runner.listen to another port",
                local.url,
                local.id,
                escape(&why.to_string())
            ),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Says that a runner was found, since that one does not know what was changed in the settings meanwhile.
fn tell_of_the_old_one(local: &Runner, pid: Option<u32>) {
    let pid = pid.map_or_else(|| "its process".to_owned(), |pid| format!("process {pid}"));
    output::remark(format_args!(
        "Runner {} was running already, with the settings it was started with. To let new ones take effect, end {pid}: it \
         is started again, and its engines go on.",
        local.id
    ));
}

/// Waits for the process of a runner that this started, so that nothing of it is left when it ends.
fn watch(started: Option<(Child, PathBuf)>) {
    let Some((mut child, _)) = started else { return };
    tracing::info!(pid = child.id(), "started the runner");
    tokio::spawn(async move {
        match child.wait().await {
            Ok(status) => tracing::warn!(%status, "the runner has ended"),
            Err(error) => tracing::warn!(%error, "the runner cannot be waited for"),
        }
    });
}

/// Starts the runner again whenever nothing listens in its place; its engines have outlived it.
async fn keep_runner(context: &Context, tools: &Tools, (local, owner): (&Runner, &str)) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        if !matches!(health(tools, local).await, Err(NoAnswer::Unconnected(_))) {
            continue;
        }
        match find_or_start(context, tools, (local, owner)).await {
            Ok(()) => tracing::info!(runner_id = %local.id, "the runner was gone and is there again"),
            Err(error) => {
                tracing::error!(%error, "the runner is gone and cannot be started again; trying again");
                tokio::time::sleep(READY).await;
            }
        }
    }
}

/// Starts `sexton runner` with the same settings, in a session of its own. What it finds without an owner is adopted on both
/// sides by the same one, whom the store may have known and the settings need not.
async fn start(context: &Context, owner: &str) -> anyhow::Result<(Child, PathBuf)> {
    let folder = context.paths.state_dir()?;
    tokio::fs::create_dir_all(&folder).await.with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(LOG);
    let log = open_log(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    let mut command = Command::new(program);
    command.args(["runner", "--detach"]);
    if let Some(file) = &context.file {
        command.arg("--config").arg(std::path::absolute(file)?);
    }
    command.env("SEXTON_OWNER", owner);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(log));
    let child = command.spawn().context("cannot start the runner")?;
    Ok((child, path))
}

fn open_log(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Fails when the runner that was started has ended already, with the last line that it wrote.
fn check(child: &mut Child, log: &Path) -> anyhow::Result<()> {
    let Some(status) = child.try_wait().context("cannot watch the runner")? else { return Ok(()) };
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().last().unwrap_or_default();
    bail!("the runner did not start ({status}): {}", escape(last))
}

/// Makes the token that Sexton's own command line shows to the API, unless there is one that the store knows; returns the
/// file that it lies in.
async fn make_token(context: &Context, tools: &Tools, owner: &str) -> anyhow::Result<PathBuf> {
    let file = context.paths.api_token_file()?;
    let unusable = || format!("the token {} cannot be used", file.display());
    if let Some(kept) = secret::read(&file).with_context(unusable)?
        && tools.store.find_token(&token::hash(&kept)).await?.is_some()
    {
        return Ok(file);
    }
    let scopes = "admin".parse().map_err(|why: String| anyhow::anyhow!(why))?;
    let made = tokens::create(tools, owner, &scopes).await?;
    secret::write(&file, made.expose()).with_context(unusable)?;
    Ok(file)
}
