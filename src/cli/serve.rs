//! `sexton serve`: the worker, with its schedule, its store and its API.

use crate::api;
use crate::cli::output::Outcome;
use crate::cli::{Context, listen, reload, signals};

/// Runs the worker until SIGTERM or Ctrl-C; SIGHUP lets it read its settings again.
///
/// # Errors
/// When its port or its store cannot be used.
pub(crate) async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let (shutdown, hangup) = signals::of_daemon()?;
    let listener = listen::bind(&context.config.server).await?;
    let tools = context.tools().await?;
    let owner = context.settle_owner(&tools.store).await?;
    context.note_limits(&tools.store).await?;
    let served = reload::beside(context, &tools.clone(), hangup, api::serve(tools, owner, listener, shutdown)).await;
    served.map(|()| Outcome::Done)
}
