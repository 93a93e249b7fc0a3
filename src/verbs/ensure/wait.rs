//! Waiting for a start that somebody else has begun, in this process or another.

use std::time::Duration;

use crate::session::{Session, Status};
use crate::time::Ms;
use crate::tools::Tools;
use crate::verbs::VerbError;
use crate::verbs::ending::ending;
use crate::verbs::ensure::launch::not_started;
use crate::verdict::Verdict;

/// How long a row is left alone between two looks at it, in milliseconds.
const PAUSE: Ms = 50;

/// What became of a row in `starting`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::verbs) enum Settled {
    /// Its engine runs.
    Active(Box<Session>),
    /// It was closed, for another reason than that its engine did not start, or is gone.
    Changed,
}

/// Waits until a row has left `starting`, for as long as its start may take.
///
/// # Errors
/// When its engine did not start (with the same reason as whoever started it is told: nobody starts it a second time at
/// once), it does not leave `starting` in time (the next passes settle it), or the store fails.
pub(in crate::verbs) async fn settled(tools: &Tools, starting: &Session) -> Result<Settled, VerbError> {
    let limits = tools.config().limits.clone();
    let longest = limits.ready_wait.0 + 2 * limits.request_timeout.0;
    let began = tools.clock.elapsed();
    let mut paused = 0;
    loop {
        let Some(row) = tools.store.find_session(&starting.id).await? else { return Ok(Settled::Changed) };
        match row.status {
            Status::Active => return Ok(Settled::Active(Box::new(row))),
            Status::Ended if row.end_reason.as_deref() == Some(Verdict::StartFailed.as_str()) => {
                return Err(not_started(&row, &why(tools, &row).await?));
            }
            Status::Ended => return Ok(Settled::Changed),
            Status::Starting => {}
        }
        // A clock may stand still, and looking may itself take long: whichever comes first.
        if paused >= longest || tools.clock.elapsed() - began >= longest {
            return Err(VerbError::Runner(format!(
                "session {} is being started on runner {} and has not come up yet; the next passes settle it",
                row.id, row.runner_id
            )));
        }
        tokio::time::sleep(Duration::from_millis(PAUSE.unsigned_abs())).await;
        paused += PAUSE;
    }
}

/// Returns why the engine of a row that was closed as `start_failed` did not start.
async fn why(tools: &Tools, row: &Session) -> Result<String, VerbError> {
    let told =
        ending(tools, row).await?.map(|entry| entry.evidence["detail"].as_str().map_or(entry.message, str::to_owned));
    Ok(told.unwrap_or_else(|| "no reason is known".to_owned()))
}
