//! `sexton start`: an engine in a folder.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use serde_json::json;

use crate::cli::Context;
use crate::cli::args::StartArgs;
use crate::cli::enrol::{enrol, health_once_ready, local_runner};
use crate::cli::output::{self, Outcome, escape};
use crate::session::Id;
use crate::tools::Tools;
use crate::verbs::{self, StartWish};

/// Starts an engine, or finds the session that is open in that folder, and prints its id.
///
/// # Errors
/// When there is no such folder, no runner to start it on, or the engine does not start.
pub(crate) async fn run(context: &Context, tools: &Tools, args: StartArgs) -> anyhow::Result<Outcome> {
    let repo = folder(&args.repo)?;
    if needs_local(context, tools, args.runner.as_ref()).await? {
        enrol_if_it_answers(context, tools).await?;
    }
    check_enrolled(tools, args.runner.as_ref()).await?;
    let owner = context.owner(&tools.store).await?;
    let actor = verbs::person(tools, &owner);
    let StartArgs { engine, runner, force, idle_after, args, json: as_json, .. } = args;
    let idle_after = idle_after.map(|span| span.0);
    let wish = StartWish { runner, force, idle_after, args, ..StartWish::new(owner, repo, engine) };
    let started = verbs::start(tools, &wish, &actor).await?;
    if as_json {
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

/// Returns whether the runner of this machine is to be enrolled first: it is named and is not, or nobody is.
async fn needs_local(context: &Context, tools: &Tools, named: Option<&Id>) -> anyhow::Result<bool> {
    let here = &context.config.runner.id;
    Ok(match named {
        Some(named) => named == here && tools.store.find_runner(here).await?.is_none(),
        None => tools.store.list_runners().await?.is_empty(),
    })
}

/// Refuses a runner that is named and that nobody enrolled: a wrong argument, and no session that could not be handled.
async fn check_enrolled(tools: &Tools, named: Option<&Id>) -> anyhow::Result<()> {
    let Some(named) = named else { return Ok(()) };
    if tools.store.find_runner(named).await?.is_none() {
        bail!("runner {named} is not enrolled; `sexton runners add {named} URL` enrols it");
    }
    Ok(())
}

async fn enrol_if_it_answers(context: &Context, tools: &Tools) -> anyhow::Result<()> {
    let local = local_runner(context, tools)?;
    match health_once_ready(tools, &local).await {
        Ok(_) => enrol(tools, &local).await,
        Err(why) => bail!("no runner {} answers on this machine; `sexton up` starts one ({why})", local.id),
    }
}
