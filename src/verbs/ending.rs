//! What a session's timeline says of its end.

use crate::entry::{Entry, EntryKind};
use crate::session::Session;
use crate::store::EntryFilter;
use crate::tools::Tools;
use crate::verbs::VerbError;

/// How many of the newest entries are looked through.
const NEWEST: u32 = 8;

/// Returns the newest entry that tells how a row ended, in the start that the row has; none when it is not among the newest
/// of the session, as with rows that Sexton did not close.
///
/// # Errors
/// When the store fails.
pub(super) async fn ending(tools: &Tools, row: &Session) -> Result<Option<Entry>, VerbError> {
    let (session, limit) = (Some(row.id.clone()), Some(NEWEST));
    let filter = EntryFilter { session, newest_first: true, limit, ..EntryFilter::default() };
    let entries = tools.store.list_timeline(&filter).await?;
    Ok(entries.into_iter().find(|entry| entry.kind == EntryKind::Ended && entry.generation == row.generation))
}
