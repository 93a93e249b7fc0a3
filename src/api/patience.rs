//! How long a request may take, and that what it began is finished.
//!
//! A request runs as a task of its own: a caller that goes away, or waits no longer, leaves no stop or start half-way,
//! and a panic becomes an answer.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use crate::api::error::{ApiError, ErrorCode};
use crate::api::state::Shared;
use crate::config::Config;

/// What a request waits for, and so how long it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// The store alone.
    Store,
    /// A runner.
    Runner,
    /// A runner that stops an engine.
    Stop,
    /// A whole pass, and the one before it.
    Pass,
}

/// How long the store may take: it waits for other writers, and fails by itself before this.
const STORE: Duration = Duration::from_secs(15);

impl Patience {
    /// Returns the limit under these settings.
    pub(super) fn limit(self, config: &Config) -> Duration {
        let limits = &config.limits;
        match self {
            Self::Store => STORE,
            Self::Runner => STORE + 3 * limits.request_timeout.as_std(),
            Self::Stop => STORE + limits.request_timeout.as_std() + limits.end_timeout.as_std(),
            Self::Pass => STORE + 2 * config.schedule.pass_limit.as_std(),
        }
    }
}

/// Works on a request to its end, and answers after `limit` at the latest.
pub(super) async fn bound(State((api, limit)): State<(Shared, Duration)>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let task = api.requests.spawn(next.run(request));
    match timeout(limit, task).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            tracing::error!(path, panicked = error.is_panic(), "a request failed unexpectedly");
            ApiError::new(ErrorCode::Internal, "this failed unexpectedly; the worker's log says more").into_response()
        }
        Err(_) => {
            tracing::error!(path, "a request took too long");
            let message = "this takes too long; it goes on, so look before you ask again";
            ApiError::new(ErrorCode::Timeout, message).into_response()
        }
    }
}
