//! `sexton start`: an engine in a folder.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use serde_json::json;

use crate::cli::Context;
use crate::cli::args::StartArgs;
use crate::cli::enrol::{enrol, health_once_ready, local_runner};
use crate::cli::output::{self, Outcome, escape};
use crate::tools::Tools;
use crate::verbs::{self, StartWish};

/// Starts an engine, or finds the session that is open in that folder, and prints its id.
///
/// # Errors
/// When there is no such folder, no runner to start it on, or the engine does not start.
pub(crate) async fn run(context: &Context, tools: &Tools, args: StartArgs) -> anyhow::Result<Outcome> {
    let repo = folder(&args.repo)?;
    let moves = args.runner.is_some();
    let runner_id = args.runner.unwrap_or_else(|| context.config.runner.id.clone());
    if runner_id == context.config.runner.id && tools.store.find_runner(&runner_id).await?.is_none() {
        enrol_if_it_answers(context, tools).await?;
    }
    let owner = context.owner(&tools.store).await?;
    let actor = verbs::person(tools, &owner);
    let wish =
        StartWish { moves, force: args.force, args: args.args, ..StartWish::new(owner, repo, args.engine, runner_id) };
    let started = verbs::start(tools, &wish, &actor).await?;
    if args.json {
        output::json(&json!({ "session": started.session, "opened": started.opened }))?;
        return Ok(Outcome::Done);
    }
    output::line(&started.session.id)?;
    if !started.opened && started.launched {
        let runner = &started.session.runner_id;
        output::remark(format_args!(
            "It was open in {} already; its engine was started again on {runner}.",
            escape(&wish.repo)
        ));
    } else if !started.opened {
        output::remark(format_args!("It was open in {} already; nothing was started.", escape(&wish.repo)));
    }
    Ok(Outcome::Done)
}

/// Returns the folder under its one name, whatever links lead to it: a session is found again by it.
fn folder(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let whole = path.canonicalize().with_context(|| format!("--repo {shown} cannot be used"))?;
    if !whole.is_dir() {
        bail!("--repo {shown} is no folder");
    }
    whole.into_os_string().into_string().map_err(|_| anyhow!("--repo {shown} has a name that is not UTF-8 text"))
}

async fn enrol_if_it_answers(context: &Context, tools: &Tools) -> anyhow::Result<()> {
    let local = local_runner(context, tools)?;
    match health_once_ready(tools, &local).await {
        Ok(_) => enrol(tools, &local).await,
        Err(why) => bail!("no runner {} answers on this machine; `sexton up` starts one ({why})", local.id),
    }
}
