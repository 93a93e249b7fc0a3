//! `sexton serve`: the worker, with its schedule, its store and its API.

use anyhow::bail;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::output::Outcome;
use crate::cli::{Context, listen, signals};
use crate::tools::Tools;

/// Runs the worker until SIGTERM or Ctrl-C.
///
/// # Errors
/// When its port or its store cannot be used.
pub(crate) async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let shutdown = signals::shutdown()?;
    let listener = listen::bind("server.listen", context.config.server.listen).await?;
    let tools = context.tools().await?;
    let served = worker(&tools, listener, shutdown).await;
    tools.store.close().await;
    served.map(|()| Outcome::Done)
}

/// Works and answers on `listener` until `shutdown`, then writes what it held back.
///
/// # Errors
/// When the worker cannot start, or its listener fails.
pub(crate) async fn worker(tools: &Tools, listener: TcpListener, shutdown: CancellationToken) -> anyhow::Result<()> {
    let _ = (tools, listener, shutdown);
    bail!("this build has no API yet")
}
