//! How a process is asked to end: SIGTERM, Ctrl-C, or its terminal closes; and how a daemon is asked to read its settings
//! again: SIGHUP, where it has no terminal.

use std::io::IsTerminal;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How a process ends that was asked twice: as one that Ctrl-C killed.
const INTERRUPTED: i32 = 130;

/// Why a process may not start that cannot hear of signals.
const DEAF: &str = "cannot listen for signals";

/// Returns a token that is cancelled when the process is asked to end. A Ctrl-C after that ends it at once: whoever asks
/// again does not want to wait, and what is in flight is left to the next pass as after a crash.
///
/// # Errors
/// When the system gives no way to hear of it.
pub(crate) fn shutdown() -> anyhow::Result<CancellationToken> {
    ends_on(Some(signal(SignalKind::hangup()).context(DEAF)?))
}

/// Returns the same token for a daemon, and what hears of SIGHUP where that asks for new settings: a daemon whose standard
/// input is a terminal ends when that closes, and any other reads its settings again.
///
/// # Errors
/// When the system gives no way to hear of it.
pub(crate) fn of_daemon() -> anyhow::Result<(CancellationToken, Option<Signal>)> {
    let hangup = signal(SignalKind::hangup()).context(DEAF)?;
    if std::io::stdin().is_terminal() {
        return Ok((ends_on(Some(hangup))?, None));
    }
    Ok((ends_on(None)?, Some(hangup)))
}

fn ends_on(hangup: Option<Signal>) -> anyhow::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate()).context(DEAF)?;
    let mut interrupt = signal(SignalKind::interrupt()).context(DEAF)?;
    let token = CancellationToken::new();
    let asked = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = next(hangup) => {}
        }
        asked.cancel();
        interrupt.recv().await;
        at_once();
    });
    Ok(token)
}

/// Waits for a signal, for ever where it is not listened for.
async fn next(signal: Option<Signal>) {
    match signal {
        Some(mut signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

#[expect(clippy::disallowed_methods, reason = "who asks twice wants no clean-up")]
fn at_once() -> ! {
    std::process::exit(INTERRUPTED)
}
