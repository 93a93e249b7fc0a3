//! How a process is asked to end: SIGTERM, Ctrl-C, or its terminal closes.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Returns a token that is cancelled when the process is asked to end.
///
/// # Errors
/// When the system gives no way to hear of it.
pub(crate) fn shutdown() -> anyhow::Result<CancellationToken> {
    let heard = "cannot listen for signals";
    let mut terminate = signal(SignalKind::terminate()).context(heard)?;
    let mut interrupt = signal(SignalKind::interrupt()).context(heard)?;
    let mut hangup = signal(SignalKind::hangup()).context(heard)?;
    let token = CancellationToken::new();
    let asked = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        asked.cancel();
    });
    Ok(token)
}
