//! `sexton serve`: the worker, with its schedule, its store and its API.

use crate::api;
use crate::cli::output::Outcome;
use crate::cli::{Context, listen, signals};

/// Runs the worker until SIGTERM or Ctrl-C.
///
/// # Errors
/// When its port or its store cannot be used.
pub(crate) async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let shutdown = signals::shutdown()?;
    let listener = listen::bind(&context.config.server).await?;
    let tools = context.tools().await?;
    let owner = context.settle_owner(&tools.store).await?;
    context.note_limits(&tools.store).await?;
    api::serve(tools, owner, listener, shutdown).await?;
    Ok(Outcome::Done)
}
