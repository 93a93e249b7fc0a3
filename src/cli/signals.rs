//! How a process is asked to end: SIGTERM, Ctrl-C, or its terminal closes.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How a process ends that was asked twice: as one that Ctrl-C killed.
const INTERRUPTED: i32 = 130;

/// Returns a token that is cancelled when the process is asked to end. A Ctrl-C after that ends it at once: whoever asks
/// again does not want to wait, and what is in flight is left to the next pass as after a crash.
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
        interrupt.recv().await;
        at_once();
    });
    Ok(token)
}

#[expect(clippy::disallowed_methods, reason = "who asks twice wants no clean-up")]
fn at_once() -> ! {
    std::process::exit(INTERRUPTED)
}
