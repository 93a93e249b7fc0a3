//! `sexton pause` and `sexton resume`: hold the reaper back from everything, and let it act again.

use crate::cli::Context;
use crate::cli::args::WhyArgs;
use crate::cli::output::{self, Outcome, escape};
use crate::store::PAUSED;
use crate::tools::Tools;

/// Pauses the reaper, on record with who did it, when and why.
///
/// # Errors
/// When the store fails.
pub(crate) async fn pause(context: &Context, tools: &Tools, args: WhyArgs) -> anyhow::Result<Outcome> {
    let because = args.because.map(|why| format!(": {why}")).unwrap_or_default();
    let note = format!("by {} since {}{because}", context.person(), tools.clock.now());
    tools.store.set_setting(PAUSED, &note).await?;
    output::line("Paused: sweeps decide and report, and act on nothing. `sexton resume` lets them act again.")?;
    Ok(Outcome::Done)
}

/// Lets the reaper act again.
///
/// # Errors
/// When the store fails.
pub(crate) async fn resume(tools: &Tools) -> anyhow::Result<Outcome> {
    let note = tools.store.setting(PAUSED).await?;
    tools.store.delete_setting(PAUSED).await?;
    match note {
        Some(note) => output::line(format_args!("Resumed; it was paused {}.", escape(&note)))?,
        None => output::line("It was not paused by `sexton pause`.")?,
    }
    if tools.config().safety.paused {
        output::remark("The settings still say safety.paused = true, so sweeps act on nothing.");
    }
    Ok(Outcome::Done)
}
