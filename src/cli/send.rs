//! `sexton send`: a message to a session's engine.

use crate::cli::args::SendArgs;
use crate::cli::output::{self, Outcome};
use crate::tools::Tools;
use crate::verbs::{self, Message};

/// Gives the engine a message; done once its runner took it.
///
/// # Errors
/// When it was not, or may not have been, delivered.
pub(crate) async fn run(tools: &Tools, args: SendArgs) -> anyhow::Result<Outcome> {
    let session = verbs::send(tools, &args.id, &Message::plain(&args.text)).await?.session;
    output::line(format_args!("Runner {} took the message for session {}.", session.runner_id, session.id))?;
    Ok(Outcome::Done)
}
