//! Activity and signs of life: what makes a crash of this process visible, and a clean stop complete.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::sweep::SILENT;
use crate::worker::Worker;

/// How often this process says that it lives; three may be missed before it counts as gone.
const BEAT: Duration = Duration::from_secs(10);

/// How long the last writes may take.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Writes activity and signs of life until `quiet`; then everything that was held back, and only then signs off.
///
/// A process that could not write it all does not sign off: what it held back is then made up for like after a crash.
pub(super) async fn keep(worker: &Worker, quiet: &CancellationToken) {
    make_up(worker).await;
    let written = async {
        let written = worker.recorder.run(quiet.clone()).await;
        if written { true } else { worker.recorder.flush().await }
    };
    let bounded = async {
        tokio::select! {
            written = written => written,
            () = late(quiet) => false,
        }
    };
    let beating = async {
        tokio::select! {
            () = quiet.cancelled() => {}
            () = beat(worker) => {}
        }
    };
    let (written, ()) = tokio::join!(bounded, beating);
    if !written {
        tracing::error!("activity of the last minute could not be written; the next start makes up for it");
        return;
    }
    match timeout(LAST_WRITES, worker.tools.store.retire(&worker.tools.worker_id)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "this process could not sign off"),
        Err(_) => tracing::warn!("this process could not sign off in time"),
    }
}

/// Makes up for a process that ended without writing what it held back.
async fn make_up(worker: &Worker) {
    let throttle = worker.tools.config().policy.activity_throttle.0;
    match worker.tools.store.forgive_crashes(worker.tools.clock.now(), SILENT, throttle).await {
        Ok(0) => {}
        Ok(sessions) => {
            tracing::info!(sessions, "a process ended uncleanly: sessions it had just written look younger")
        }
        Err(error) => tracing::warn!(%error, "whether a process ended uncleanly could not be read; the next pass does"),
    }
}

/// Gives signs of life for ever.
async fn beat(worker: &Worker) {
    let mut ticks = interval(BEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        ticks.tick().await;
        let beaten = worker.tools.store.beat(&worker.tools.worker_id, worker.tools.clock.now()).await;
        if let Err(error) = &beaten
            && !failing
        {
            tracing::warn!(%error, "a sign of life could not be written");
        }
        failing = beaten.is_err();
    }
}

async fn late(quiet: &CancellationToken) {
    quiet.cancelled().await;
    tokio::time::sleep(LAST_WRITES).await;
}
