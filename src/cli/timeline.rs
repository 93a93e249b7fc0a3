//! `sexton timeline`: what happened, to one session or to all.

use comfy_table::Cell;
use serde_json::{Value, json};

use crate::activity::{Heard, touch_once};
use crate::cli::args::TimelineArgs;
use crate::cli::ids::{self, Width};
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
    let session = match &args.id {
        Some(id) => Some(ids::whole(tools, id).await?),
        None => None,
    };
    if let Some(id) = &session {
        touch(tools, id).await?;
    }
    let one = session.is_some();
    let filter = EntryFilter { session, newest_first: true, limit: Some(args.limit), ..EntryFilter::default() };
    let mut entries = tools.store.list_timeline(&filter).await?;
    entries.reverse();
    if args.json {
        output::json(&json!({ "items": entries, "next": Value::Null }))?;
    } else if entries.is_empty() {
        output::line("Nothing has happened yet.")?;
    } else if one {
        let rows = entries.iter().map(|entry| row(entry, None));
        output::table(&["TIME (UTC)", "KIND", "WHAT HAPPENED"], rows.collect())?;
    } else {
        let header = ["TIME (UTC)", "SESSION", "KIND", "WHAT HAPPENED"];
        let width = Width::of(tools, entries.iter().map(|entry| &entry.session_id)).await?;
        output::table(&header, entries.iter().map(|entry| row(entry, Some(width))).collect())?;
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

fn row(entry: &Entry, width: Option<Width>) -> Vec<Cell> {
    let mut row = vec![cell(output::time(entry.at))];
    row.extend(width.map(|width| cell(width.show(&entry.session_id))));
    row.extend([cell(entry.kind), cell(&entry.message)]);
    row
}
