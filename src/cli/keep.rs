//! `sexton keep`: hold the reaper back from one session, until a time and for a reason.

use crate::cli::Context;
use crate::cli::args::KeepArgs;
use crate::cli::output::{self, Outcome};
use crate::time::spoken;
use crate::tools::Tools;
use crate::verbs;

/// Keeps the session.
///
/// # Errors
/// When there is no such open session, or the time or the reason cannot be taken.
pub(crate) async fn run(context: &Context, tools: &Tools, args: KeepArgs) -> anyhow::Result<Outcome> {
    let actor = verbs::person(tools, &context.person());
    let session = verbs::keep(tools, &args.id, args.time.0, &args.because, &actor).await?;
    let until = session.keep_until.map(output::time).unwrap_or_default();
    output::line(format_args!("Session {} is kept for {}, until {until} UTC.", session.id, spoken(args.time.0)))?;
    Ok(Outcome::Done)
}
