//! `sexton runners`: which runners are enrolled and how they answer; enrolling, removing and resetting one.

mod url;

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use comfy_table::Cell;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::args::{AddRunner, RunnersArgs, RunnersCommand};
use crate::cli::live::ask_all;
use crate::cli::output::{self, Outcome, cell, figure, judged};
use crate::cli::runners::url::base_url;
pub(crate) use crate::cli::runners::url::is_open_to_read;
use crate::report::RunnerState;
use crate::session::{Id, Runner};
use crate::time::UtcMs;
use crate::tools::Tools;

/// Lists runners, or changes which are enrolled.
///
/// # Errors
/// When the wish cannot be met, or the store fails.
pub(crate) async fn run(tools: &Tools, args: RunnersArgs) -> anyhow::Result<Outcome> {
    match args.command {
        None => list(tools, args.json).await,
        Some(RunnersCommand::Add(wish)) => add(tools, wish).await,
        Some(RunnersCommand::Remove { id, force }) => remove(tools, &id, force).await,
        Some(RunnersCommand::Reset { id }) => reset(tools, &id).await,
    }
}

/// Enrols a runner under the identity that it must answer with. It need not be there yet.
async fn add(tools: &Tools, wish: AddRunner) -> anyhow::Result<Outcome> {
    let url = base_url(&wish.url).map_err(|why| anyhow!(why))?;
    let token_file = wish.token_file.as_deref().map(whole_path).transpose()?;
    if let Some(file) = token_file.as_deref().filter(|file| !Path::new(file).exists()) {
        output::remark(format_args!(
            "There is no file {} yet: until then the runner is asked without a secret in vain.",
            output::escape(file)
        ));
    }
    let AddRunner { id, require_conditional_stop, .. } = wish;
    // What is not named again stays: a runner that moves keeps its secret.
    let known = tools.store.find_runner(&id).await?;
    let require_conditional_stop =
        require_conditional_stop || known.as_ref().is_some_and(|known| known.require_conditional_stop);
    let runner = Runner {
        identity: Some(id.to_string()),
        url,
        token_file: token_file.or_else(|| known.as_ref().and_then(|known| known.token_file.clone())),
        created_at: tools.clock.now(),
        last_seen_at: None,
        epoch: None,
        protocol: None,
        state_id: None,
        require_conditional_stop,
        id,
    };
    tools.store.add_runner(&runner).await?;
    let (done, id, url) = (if known.is_some() { "changed" } else { "enrolled" }, &runner.id, &runner.url);
    output::line(format_args!("Runner {id} is {done} at {url}."))?;
    if is_open_to_read(url) {
        output::remark(
            "Its secret passes through the network as it is, where others may read it: use https, or a tunnel.",
        );
    }
    Ok(Outcome::Done)
}

/// Commands run in many folders; the file must be found from all of them.
fn whole_path(path: &Path) -> anyhow::Result<String> {
    let whole = std::path::absolute(path).with_context(|| format!("--token-file {} cannot be used", path.display()))?;
    whole.into_os_string().into_string().map_err(|path| anyhow!("--token-file {} is not UTF-8", path.display()))
}

/// Removes a runner. Nobody can stop its engines from then on, and once idle their rows are closed as of a machine that is
/// gone: while it answers and holds any, that takes `force`.
async fn remove(tools: &Tools, id: &Id, force: bool) -> anyhow::Result<Outcome> {
    if !force {
        check_is_empty(tools, id).await?;
    }
    let open = tools.store.count_open(id).await?;
    if !tools.store.remove_runner(id).await? {
        bail!("no runner {id} is enrolled");
    }
    output::line(format_args!("Runner {id} is removed."))?;
    if open > 0 {
        output::remark(format_args!(
            "{open} of its sessions are open: once idle, each is closed as of a machine that is gone, its engine not stopped."
        ));
    }
    Ok(Outcome::Done)
}

async fn check_is_empty(tools: &Tools, id: &Id) -> anyhow::Result<()> {
    let Some(runner) = tools.store.find_runner(id).await? else { return Ok(()) };
    let held: usize = ask_all(tools, &[runner]).await.values().map(|live| live.set.tracked.len()).sum();
    if held > 0 {
        bail!(
            "runner {id} answers and holds {held} engine{}: without it they go on and nobody can stop them, \
             and their rows are closed as machine_gone once idle; end them first, or say --force",
            if held == 1 { "" } else { "s" }
        );
    }
    Ok(())
}

async fn reset(tools: &Tools, id: &Id) -> anyhow::Result<Outcome> {
    if !tools.store.reset_runner(id).await? {
        bail!("no runner {id} is enrolled");
    }
    output::line(format_args!(
        "Identity, state folder, epoch and protocol of runner {id} are forgotten; what answers next is accepted."
    ))?;
    Ok(Outcome::Done)
}

/// One runner as it is listed.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    runner: Runner,
    state: RunnerState,
    why: Option<String>,
    /// How many open rows name it.
    open_sessions: u64,
    /// How many engines it says it holds; none when it does not say.
    engines: Option<usize>,
}

async fn list(tools: &Tools, json: bool) -> anyhow::Result<Outcome> {
    let runners = tools.store.list_runners().await?;
    let mut live = ask_all(tools, &runners).await;
    let mut listed = Vec::new();
    for runner in runners {
        let Some(answer) = live.remove(&runner.id) else { continue };
        let open_sessions = tools.store.count_open(&runner.id).await?;
        let engines = (answer.state == RunnerState::Live).then_some(answer.set.tracked.len());
        listed.push(Listed { state: answer.state, why: answer.why, open_sessions, engines, runner });
    }
    if json {
        output::json(&json!({ "items": listed, "next": Value::Null }))?;
    } else if listed.is_empty() {
        output::line("No runner is enrolled; `sexton up` starts one, `sexton runners add ID URL` enrols one.")?;
    } else {
        let header = ["RUNNER", "STATE", "SESSIONS", "ENGINES", "PROTOCOL", "EPOCH", "LAST SEEN", "URL", "WHY"];
        let now = tools.clock.now();
        output::table(&header, listed.iter().map(|listed| row(listed, now)).collect())?;
    }
    Ok(Outcome::Done)
}

fn row(listed: &Listed, now: UtcMs) -> Vec<Cell> {
    let runner = &listed.runner;
    let number = |value: Option<String>| figure(value.unwrap_or_else(|| "-".to_owned()));
    vec![
        cell(&runner.id),
        judged(listed.state, listed.state == RunnerState::Live),
        figure(listed.open_sessions),
        number(listed.engines.map(|count| count.to_string())),
        number(runner.protocol.map(|protocol| protocol.to_string())),
        number(runner.epoch.map(|epoch| epoch.to_string())),
        cell(output::ago(runner.last_seen_at, now)),
        cell(&runner.url),
        cell(listed.why.as_deref().unwrap_or_default()),
    ]
}
