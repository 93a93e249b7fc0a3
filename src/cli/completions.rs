//! `sexton completions`: completions for a shell.

use std::io::Write as _;

use clap::CommandFactory;

use crate::cli::args::Cli;
use crate::cli::output::Outcome;

/// Prints the completions.
///
/// # Errors
/// When nobody reads any more.
pub(crate) fn run(shell: clap_complete::Shell) -> anyhow::Result<Outcome> {
    // Collected first: the generator panics when nobody reads.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sexton", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Outcome::Done)
}
