//! `sexton end`: stop a session's engine, then close its row, because a person wants it.

use crate::cli::Context;
use crate::cli::args::EndArgs;
use crate::cli::ids;
use crate::cli::output::{self, Outcome, escape};
use crate::entry::EntryKind;
use crate::store::EntryFilter;
use crate::tools::Tools;
use crate::verbs;

/// Ends the session and prints its whole id and what its timeline says about that.
///
/// # Errors
/// When the session stays open, and why.
pub(crate) async fn run(context: &Context, tools: &Tools, args: EndArgs) -> anyhow::Result<Outcome> {
    let actor = verbs::person(tools, &context.person());
    let id = ids::whole(tools, &args.id).await?;
    let session = verbs::end(tools, &id, &actor).await?;
    let filter = EntryFilter {
        session: Some(session.id.clone()),
        newest_first: true,
        limit: Some(10),
        ..EntryFilter::default()
    };
    let entries = tools.store.list_timeline(&filter).await?;
    let told = entries.iter().find(|entry| entry.kind == EntryKind::Ended);
    let reason = session.end_reason.as_deref().unwrap_or_default();
    match told {
        Some(entry) => output::line(format_args!("Session {id}: {}", escape(&entry.message)))?,
        None => output::line(format_args!("Session {id} has ended ({}).", escape(reason)))?,
    }
    Ok(Outcome::Done)
}
