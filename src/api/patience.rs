//! How long a request may take, and that what it began is finished.
//!
//! A request runs as a task of its own: a caller that goes away, or waits no longer, leaves no stop or start half-way,
//! and a panic becomes an answer.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::api::error::{ApiError, ErrorCode};
use crate::api::state::Shared;
use crate::config::{Config, LimitsConfig};

/// What a request waits for, and so how long it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// The store alone.
    Store,
    /// A runner.
    Runner,
    /// A runner that stops an engine.
    Stop,
    /// A session that is opened, or moved from one runner to another, and perhaps back.
    Move,
    /// A run's engine that may be asked to stop twice, and is touched where it stays.
    Finish,
    /// A runner that waits for the end of a turn.
    Turn,
    /// A whole pass, and the one before it.
    Pass,
    /// The store and a runner, for the beginning of an answer that goes on for as long as somebody listens.
    Stream,
}

/// How long the store may take: it waits for other writers, and fails by itself before this.
const STORE: Duration = Duration::from_secs(15);

impl Patience {
    /// Returns the limit under these settings.
    pub(super) fn limit(self, config: &Config) -> Duration {
        let limits = &config.limits;
        match self {
            Self::Store => STORE,
            Self::Runner => STORE + limits.ready_wait.as_std() + 3 * limits.request_timeout.as_std(),
            Self::Stop => STORE + limits.request_timeout.as_std() + limits.end_timeout.as_std(),
            Self::Move => STORE + longest_move(limits),
            Self::Finish => 2 * Self::Stop.limit(config) + Self::Runner.limit(config),
            Self::Turn => {
                Self::Runner.limit(config) + limits.request_timeout.as_std() + config.runner.send_timeout.as_std()
            }
            Self::Stream => STORE + limits.ready_wait.as_std() + 4 * limits.request_timeout.as_std(),
            Self::Pass => STORE + 2 * config.schedule.pass_limit.as_std(),
        }
    }
}

/// Returns how long the steps of a move take at the most, one after the other.
fn longest_move(limits: &LimitsConfig) -> Duration {
    let (question, stop) = (limits.request_timeout.as_std(), limits.end_timeout.as_std());
    // The last attempt at a runner that is not ready may begin just before the wait is over.
    let patient = limits.ready_wait.as_std() + question;
    let others_start = patient + question;
    let can_take = patient;
    let leave = question + stop + question;
    // A runner that knows a later start is asked once more; a start that failed is to be forgotten.
    let start = 2 * patient + question;
    let used = question;
    others_start + can_take + leave + start + start + used
}

/// Works on a request to its end, and answers after its limit at the latest: the one of the settings that hold as it comes.
pub(super) async fn bound(State((api, patience)): State<(Shared, Patience)>, request: Request, next: Next) -> Response {
    let limit = patience.limit(&api.tools().config());
    let path = request.uri().path().to_owned();
    let task = api.requests.spawn(next.run(request));
    wait(task, limit).await.unwrap_or_else(|error| {
        tracing::error!(path, code = %error.code, "a request failed: {}", error.message);
        error.into_response()
    })
}

async fn wait(task: JoinHandle<Response>, limit: Duration) -> Result<Response, ApiError> {
    match timeout(limit, task).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(_)) => Err(ApiError::new(ErrorCode::Internal, "this failed unexpectedly; the worker's log says more")),
        Err(_) => {
            Err(ApiError::new(ErrorCode::Timeout, "this takes too long; it goes on, so look before you ask again"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_panic_becomes_an_answer() {
        let task = tokio::spawn(async { std::panic::resume_unwind(Box::new("on purpose")) });
        let error = wait(task, STORE).await.unwrap_err();
        assert_eq!(error.clone().into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!error.message.contains("on purpose"));
    }

    #[tokio::test]
    async fn what_takes_too_long_is_answered_and_goes_on() {
        let (go, gone) = oneshot::channel::<()>();
        let (done, finished) = oneshot::channel();
        let task = tokio::spawn(async move {
            gone.await.unwrap();
            done.send("done").unwrap();
            StatusCode::OK.into_response()
        });
        let error = wait(task, Duration::ZERO).await.unwrap_err();
        assert_eq!(error.into_response().status(), StatusCode::SERVICE_UNAVAILABLE);
        go.send(()).unwrap();
        assert_eq!(finished.await.unwrap(), "done");
    }
}
