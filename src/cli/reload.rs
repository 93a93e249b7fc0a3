//! Reading the settings again while a worker runs: all of them or none, in effect from the next pass on.

use tokio::signal::unix::Signal;

use crate::cli::Context;
use crate::config::{Changes, Config};
use crate::tools::Tools;

/// Runs `serving` to its end; each `hangup` meanwhile lets the settings be read again.
pub(crate) async fn beside<T>(
    context: &Context,
    tools: &Tools,
    hangup: Option<Signal>,
    serving: impl Future<Output = T>,
) -> T {
    let Some(mut hangup) = hangup else { return serving.await };
    let mut serving = std::pin::pin!(serving);
    loop {
        tokio::select! {
            served = &mut serving => return served,
            Some(()) = hangup.recv() => {}
        }
        // A store that is busy holds this up, not what is served.
        tokio::select! {
            served = &mut serving => return served,
            () = reload(context, tools) => {}
        }
    }
}

/// Reads the settings again. What cannot be used changes nothing, and is told as at a start.
async fn reload(context: &Context, tools: &Tools) {
    let read = context.reload();
    tools.metrics.record_reload(read.is_ok());
    let fresh = match read {
        Ok(fresh) => fresh,
        Err(error) => {
            tracing::error!("the settings were read again and cannot be used, so the old ones still hold: {error}");
            return;
        }
    };
    let before = tools.config();
    let changes = Changes::between(&before, &fresh.config);
    tools.settings.replace(before.followed_by(Config::clone(&fresh.config)));
    tell(&changes);
    // After they hold, so that no pass puts a session off by the old ones behind this.
    if let Err(error) = fresh.note_limits(&tools.store).await {
        tracing::warn!(%error, "sessions that were put off under the old limits are looked at only when that is over");
    }
}

fn tell(changes: &Changes) {
    if changes.is_empty() {
        tracing::info!("the settings were read again, and nothing has changed");
        return;
    }
    if !changes.at_once.is_empty() {
        tracing::info!("the settings were read again; from the next pass on: {}", changes.at_once.join(", "));
    }
    if !changes.at_restart.is_empty() {
        tracing::warn!("changed settings that take effect only at a restart: {}", changes.at_restart.join(", "));
    }
}
