//! `sexton sessions`: which sessions there are, and what each costs.

mod import;
mod state;

use std::collections::BTreeMap;

use comfy_table::Cell;
use serde::Serialize;
use serde_json::json;

use crate::cli::Context;
use crate::cli::args::{SessionsArgs, SessionsCommand};
use crate::cli::ids::Width;
use crate::cli::live::{Live, ask_all};
use crate::cli::output::{self, Outcome, cell, figure};
use crate::protocol::TrackedSession;
use crate::session::{Id, Runner, Session};
use crate::store::SessionFilter;
use crate::time::{UtcMs, spoken};
use crate::timeline::size;
use crate::tools::Tools;

pub(crate) use state::engine_word;

/// One session as it is listed.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    session: Session,
    /// What it does now, in a word or two.
    state: String,
    /// Its engine as the runner describes it; none when the runner does not tell.
    process: Option<TrackedSession>,
}

/// Lists sessions, or imports them.
///
/// # Errors
/// When the store fails, or the import is refused.
pub(crate) async fn run(context: &Context, tools: &Tools, args: SessionsArgs) -> anyhow::Result<Outcome> {
    if let Some(SessionsCommand::Import { file }) = args.command {
        return import::run(context, tools, &file).await;
    }
    // One more than is shown tells whether there is more.
    let filter = SessionFilter {
        open_only: !args.all,
        owner: args.owner,
        limit: Some(args.limit.saturating_add(1)),
        ..SessionFilter::default()
    };
    let mut sessions = tools.store.list_sessions(&filter).await?;
    let more = sessions.len() > args.limit as usize;
    sessions.truncate(args.limit as usize);
    let live = ask_all(tools, &runners_of(tools, &sessions).await?).await;
    let listed: Vec<Listed> = sessions.into_iter().map(|session| look(session, &live)).collect();
    if args.json {
        let next = listed.last().filter(|_| more).map(|listed| listed.session.id.clone());
        output::json(&json!({ "items": listed, "next": next }))?;
    } else {
        let own = context.owner(&tools.store).await?;
        let width = Width::of(tools, listed.iter().map(|listed| &listed.session.id)).await?;
        print((&own, width), &listed, tools.clock.now(), more)?;
    }
    Ok(Outcome::Done)
}

/// Returns the enrolled runners that hold any of the open sessions.
async fn runners_of(tools: &Tools, sessions: &[Session]) -> anyhow::Result<Vec<Runner>> {
    let mut runners = tools.store.list_runners().await?;
    runners.retain(|runner| sessions.iter().any(|session| session.is_open() && session.runner_id == runner.id));
    Ok(runners)
}

fn look(session: Session, live: &BTreeMap<Id, Live>) -> Listed {
    let answer = live.get(&session.runner_id);
    let tracked = answer.and_then(|live| live.set.tracked.iter().find(|engine| engine.session_id == session.id));
    let process = tracked.filter(|_| session.is_open()).cloned();
    Listed { state: state::word(&session, answer, process.as_ref()), process, session }
}

fn print((own, width): (&str, Width), listed: &[Listed], now: UtcMs, more: bool) -> std::io::Result<()> {
    if listed.is_empty() {
        return output::line("There are no sessions; `sexton start ENGINE --repo DIR` opens one.");
    }
    let others = listed.iter().any(|listed| listed.session.owner_id.as_deref() != Some(own));
    let mut header = vec!["SESSION", "STATE", "ENGINE", "RUNNER", "LAST USED", "MEMORY", "CPU"];
    header.extend(others.then_some("OWNER"));
    header.push("REPO");
    output::table(&header, listed.iter().map(|listed| row((listed, width), now, others)).collect())?;
    let known: Vec<i64> = listed.iter().filter_map(|listed| listed.process.as_ref()?.rss_bytes).collect();
    let memory = if known.is_empty() { String::new() } else { format!(", {} of memory", size(known.iter().sum())) };
    let plural = if listed.len() == 1 { "" } else { "s" };
    output::line(format_args!("{} session{plural}{memory}", listed.len()))?;
    if more {
        output::remark("There are more; --limit N shows them.");
    }
    Ok(())
}

fn row((listed, width): (&Listed, Width), now: UtcMs, others: bool) -> Vec<Cell> {
    let (session, process) = (&listed.session, listed.process.as_ref());
    let kind = session.last_activity_kind.map(|kind| format!(" ({kind})")).unwrap_or_default();
    let used = format!("{}{kind}", output::ago(session.last_used(), now));
    let memory = process.and_then(|process| process.rss_bytes).map_or_else(|| "-".to_owned(), size);
    let cpu = process.and_then(|process| process.cpu_ms).map_or_else(|| "-".to_owned(), spoken);
    let mut row = vec![
        cell(width.show(&session.id)),
        cell(&listed.state),
        cell(&session.engine),
        cell(&session.runner_id),
        cell(used),
        figure(memory),
        figure(cpu),
    ];
    row.extend(others.then(|| cell(session.owner_id.as_deref().unwrap_or("-"))));
    row.push(cell(&session.repo));
    row
}
