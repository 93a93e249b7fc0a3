//! Waiting a short, bounded time for a runner that is about to be there: worker and runner may start in any order.
//!
//! Only for what a person waits for. Passes never wait: their next tick is the next attempt.

use std::path::Path;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::protocol::{FailureOutcome, Health};
use crate::runner_client::{NoAnswer, OutputReply, SessionReply, Target};
use crate::time::Ms;
use crate::tools::Tools;

/// How long a runner is left alone between two questions, in milliseconds.
const PAUSE: Ms = 100;

/// An answer that may be about a runner which is not ready yet.
pub trait MayBeEarly {
    /// Returns whether the runner answers already and does nothing yet.
    fn is_early(&self) -> bool;
}

impl MayBeEarly for SessionReply {
    fn is_early(&self) -> bool {
        matches!(self, Self::Refused { outcome: Some(FailureOutcome::NotReady), .. })
    }
}

impl<T> MayBeEarly for (SessionReply, T) {
    fn is_early(&self) -> bool {
        self.0.is_early()
    }
}

impl<T> MayBeEarly for OutputReply<T> {
    fn is_early(&self) -> bool {
        matches!(self, Self::Refused { outcome: Some(FailureOutcome::NotReady), .. })
    }
}

impl MayBeEarly for Health {
    fn is_early(&self) -> bool {
        !self.origin.ready
    }
}

/// Asks, and asks again for as long as the runner is not ready, not there, or has not made its secret; for
/// `limits.ready_wait` at most. Returns the last answer.
///
/// What is asked again was certainly not done before: there was no connection, no secret to ask with, or a refusal that says so.
///
/// # Errors
/// The last answer, when it is none.
pub async fn once_ready<'a, T: MayBeEarly>(
    tools: &'a Tools,
    target: &'a Target,
    ask: impl Fn() -> BoxFuture<'a, Result<T, NoAnswer>> + Send,
) -> Result<T, NoAnswer> {
    let limit = tools.config().limits.ready_wait.0;
    let began = tools.clock.elapsed();
    let mut paused = 0;
    loop {
        let answer = ask().await;
        // An attempt may itself take long, and a clock may stand still: whichever comes first.
        if !may_come(target, &answer) || paused >= limit || tools.clock.elapsed() - began >= limit {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(PAUSE.unsigned_abs())).await;
        paused += PAUSE;
    }
}

/// Returns whether nothing was done, and a little later it may be.
fn may_come<T: MayBeEarly>(target: &Target, answer: &Result<T, NoAnswer>) -> bool {
    match answer {
        Ok(answer) => answer.is_early(),
        Err(NoAnswer::Unconnected(_)) => true,
        // A runner makes its secret at its first start, and until then nothing is sent to it.
        Err(NoAnswer::Unauthorised(_)) => target.token_file.as_ref().is_some_and(|file| !Path::new(file).exists()),
        Err(NoAnswer::Unanswered(_) | NoAnswer::Unknown(_) | NoAnswer::Unrecognised(_)) => false,
    }
}
