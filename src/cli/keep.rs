//! `sexton keep`: hold the reaper back from one session, until a time and for a reason.

use crate::cli::args::KeepArgs;
use crate::cli::lease::Kept;
use crate::cli::output::{self, Outcome};
use crate::cli::{Context, lease};
use crate::session::{Id, Session};
use crate::time::spoken;
use crate::tools::Tools;
use crate::verbs;

/// Keeps the session that is named.
///
/// # Errors
/// When there is no such open session, or the time or the reason cannot be taken.
pub(crate) async fn run(context: &Context, tools: &Tools, id: &Id, args: &KeepArgs) -> anyhow::Result<Outcome> {
    let actor = verbs::person(tools, &context.person());
    let Session { id, keep_until, keep_reason, .. } =
        verbs::keep(tools, id, args.time.0, &args.because, &actor).await?;
    tell(&Kept { id, keep_until, keep_reason }, args)
}

/// Keeps the session whose engine this runs in, by asking the worker: an engine need not reach the store.
///
/// # Errors
/// When this runs in no engine, or the worker does not answer or does not do it.
pub(crate) async fn in_engine(context: &Context, args: &KeepArgs) -> anyhow::Result<Outcome> {
    tell(&lease::keep(context, args.time, &args.because).await?, args)
}

fn tell(kept: &Kept, args: &KeepArgs) -> anyhow::Result<Outcome> {
    let until = kept.keep_until.map(output::time).unwrap_or_default();
    let (id, time) = (&kept.id, spoken(args.time.0));
    if kept.keep_reason.as_deref() == Some(&args.because) {
        output::line(format_args!("Session {id} is kept for {time}, until {until} UTC."))?;
    } else {
        output::line(format_args!("Session {id} is kept for longer than {time} already, until {until} UTC."))?;
    }
    Ok(Outcome::Done)
}
