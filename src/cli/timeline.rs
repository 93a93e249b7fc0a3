//! `sexton timeline`: what happened, to one session or to all.

use comfy_table::Cell;
use serde_json::{Value, json};

use crate::activity::{Heard, touch_once};
use crate::cli::args::TimelineArgs;
use crate::cli::output::{self, Outcome, cell};
use crate::entry::Entry;
use crate::session::{ActivityKind, Id};
use crate::store::EntryFilter;
use crate::tools::Tools;
use crate::verbs::{self, VerbError};

/// Prints the newest entries, the oldest of them first. Reading the timeline of one open session is a use of it.
///
/// # Errors
/// When there is no such session, or the store fails.
pub(crate) async fn run(tools: &Tools, args: TimelineArgs) -> anyhow::Result<Outcome> {
    if let Some(id) = &args.id {
        touch(tools, id).await?;
    }
    let one = args.id.is_some();
    let filter =
        EntryFilter { session: args.id, newest_first: true, limit: Some(args.limit), ..EntryFilter::default() };
    let mut entries = tools.store.list_timeline(&filter).await?;
    entries.reverse();
    if args.json {
        output::json(&json!({ "items": entries, "next": Value::Null }))?;
    } else if entries.is_empty() {
        output::line("Nothing has happened yet.")?;
    } else if one {
        output::table(&["TIME (UTC)", "KIND", "WHAT HAPPENED"], entries.iter().map(|entry| row(entry, one)).collect())?;
    } else {
        let header = ["TIME (UTC)", "SESSION", "KIND", "WHAT HAPPENED"];
        output::table(&header, entries.iter().map(|entry| row(entry, one)).collect())?;
    }
    Ok(Outcome::Done)
}

/// Records the reading as a use: runner first, then row. A session that has ended is only read.
async fn touch(tools: &Tools, id: &Id) -> Result<(), VerbError> {
    let session = tools.store.find_session(id).await?.ok_or_else(|| VerbError::NotFound(id.clone()))?;
    if session.is_open()
        && let Heard::Ended(_) = touch_once(tools, &session, ActivityKind::Timeline).await?
    {
        verbs::close_if_ended(tools, &session).await?;
    }
    Ok(())
}

fn row(entry: &Entry, one: bool) -> Vec<Cell> {
    let mut row = vec![cell(output::time(entry.at))];
    if !one {
        row.push(cell(&entry.session_id));
    }
    row.extend([cell(entry.kind), cell(&entry.message)]);
    row
}
