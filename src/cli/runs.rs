//! `sexton runs`: which runs there are and how they went. Looking is no use of their sessions.

use comfy_table::Cell;
use serde_json::{Value, json};

use crate::cli::args::RunsArgs;
use crate::cli::ids::{self, Width};
use crate::cli::output::{self, Outcome, cell};
use crate::session::{Id, Run};
use crate::store::RunFilter;
use crate::time::{UtcMs, spoken};
use crate::tools::Tools;
use crate::verbs::VerbError;

/// How much of what a run reported stands in the table, in characters; `--json` has all of it.
const SHOWN: usize = 120;

/// Lists runs, the newest first.
///
/// # Errors
/// When there is no such session, or the store fails.
pub(crate) async fn run(tools: &Tools, args: RunsArgs) -> anyhow::Result<Outcome> {
    let mut runs = find(tools, args.id.as_ref()).await?;
    runs.sort_by(|a, b| (b.started_at, &b.id).cmp(&(a.started_at, &a.id)));
    let more = runs.len() > args.limit as usize;
    runs.truncate(args.limit as usize);
    if args.json {
        output::json(&json!({ "items": runs, "next": Value::Null }))?;
    } else if runs.is_empty() {
        output::line("There are no runs; a host begins them over the API, with POST /v1/runs.")?;
    } else {
        print(tools, &runs, args.id.is_some()).await?;
    }
    if more {
        output::remark("There are more; --limit N shows them.");
    }
    Ok(Outcome::Done)
}

/// Finds the runs of one session with what they reported, or all without.
async fn find(tools: &Tools, wish: Option<&Id>) -> Result<Vec<Run>, VerbError> {
    let Some(wish) = wish else { return Ok(tools.store.list_runs_of(&RunFilter::default()).await?) };
    let id = ids::whole(tools, wish).await?;
    if tools.store.find_session(&id).await?.is_none() {
        return Err(VerbError::NotFound(id));
    }
    Ok(tools.store.list_runs(&id).await?)
}

async fn print(tools: &Tools, runs: &[Run], one: bool) -> anyhow::Result<()> {
    let now = tools.clock.now();
    if one {
        let header = ["RUN", "STATUS", "STARTED (UTC)", "TOOK", "LAST SIGN", "RESULT"];
        let rows = runs.iter().map(|run| [about(run, now), vec![cell(result(run))]].concat());
        return Ok(output::table(&header, rows.collect())?);
    }
    let width = Width::of(tools, runs.iter().map(|run| &run.session_id)).await?;
    let header = ["RUN", "STATUS", "STARTED (UTC)", "TOOK", "LAST SIGN", "SESSION"];
    let rows = runs.iter().map(|run| [about(run, now), vec![session(run, width)]].concat());
    Ok(output::table(&header, rows.collect())?)
}

fn about(run: &Run, now: UtcMs) -> Vec<Cell> {
    let took = run.finished_at.map_or_else(|| "-".to_owned(), |at| spoken(at.since(run.started_at).max(0)));
    let sign = run.finished_at.or(run.heartbeat_at).unwrap_or(run.started_at);
    vec![
        cell(&run.id),
        cell(run.status),
        cell(output::time(run.started_at)),
        cell(took),
        cell(output::ago(Some(sign), now)),
    ]
}

fn session(run: &Run, width: Width) -> Cell {
    let opened = if run.opened_session { " (opened by it)" } else { "" };
    cell(format_args!("{}{opened}", width.show(&run.session_id)))
}

fn result(run: &Run) -> String {
    let Some(result) = &run.result else { return "-".to_owned() };
    let mut shown: String = result.chars().take(SHOWN).collect();
    if shown.len() < result.len() {
        shown.push('…');
    }
    shown
}
