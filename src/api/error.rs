//! The one shape of every error: `{"error":{"code","message"}}`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::schedule::RunError;
use crate::store::StoreError;
use crate::verbs::VerbError;
use crate::words::words;

words! {
    /// What went wrong, for programs.
    ErrorCode {
        /// 403: the Host header names another server.
        Host = "host",
        /// 403: the request comes from another site's page.
        Origin = "origin",
        /// 401: no token, or none that holds.
        Unauthorised = "unauthorised",
        /// 403: the token does not allow this.
        Scope = "scope",
        /// 404: there is no such route.
        Route = "route",
        /// 405: the route has no such method.
        Method = "method",
        /// 400: the id in the path has not the shape of one.
        BadId = "bad_id",
        /// 404: there is no such session, run or runner.
        NotFound = "not_found",
        /// 400: the query cannot be understood.
        BadQuery = "bad_query",
        /// 400: the body cannot be understood.
        BadBody = "bad_body",
        /// 413: the body is too large.
        TooLarge = "too_large",
        /// 415: the body is not said to be JSON.
        MediaType = "media_type",
        /// 400: what is asked makes no sense.
        Invalid = "invalid",
        /// 410: the session has ended; the message says why.
        Ended = "ended",
        /// 404: the session's runner holds no engine for it.
        NotTracked = "not_tracked",
        /// 409: the session's runner holds another start of it.
        Generation = "generation",
        /// 409: something else stands in the way.
        Conflict = "conflict",
        /// 502: the runner did not do it.
        Runner = "runner",
        /// 503: the store failed.
        Store = "store",
        /// 503: it took too long.
        Timeout = "timeout",
        /// 503: the worker is stopping.
        Stopping = "stopping",
        /// 503: nobody can use the worker yet.
        NoToken = "no_token",
        /// 503: passes fail, or do not come.
        Sweeps = "sweeps",
        /// 500: a fault of Sexton's own.
        Internal = "internal",
    }
}

impl ErrorCode {
    fn status(self) -> StatusCode {
        match self {
            Self::BadId | Self::BadQuery | Self::BadBody | Self::Invalid => StatusCode::BAD_REQUEST,
            Self::Unauthorised => StatusCode::UNAUTHORIZED,
            Self::Host | Self::Origin | Self::Scope => StatusCode::FORBIDDEN,
            Self::Route | Self::NotFound | Self::NotTracked => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Generation | Self::Conflict => StatusCode::CONFLICT,
            Self::Ended => StatusCode::GONE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Runner => StatusCode::BAD_GATEWAY,
            Self::Store | Self::Timeout | Self::Stopping | Self::NoToken | Self::Sweeps => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }
}

/// The body of every error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ApiError,
}

/// An error as the API answers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ApiError {
    /// For programs.
    pub code: ErrorCode,
    /// One sentence a person can act on.
    pub message: String,
}

impl ApiError {
    /// Makes one.
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The answer to an unknown id and to somebody else's, the same to the byte.
    pub(super) fn not_found() -> Self {
        Self::new(ErrorCode::NotFound, "there is nothing of this id")
    }

    /// The answer about a session that is over.
    pub(super) fn ended(reason: &str) -> Self {
        Self::new(ErrorCode::Ended, format!("the session has ended ({reason})"))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let code = self.code;
        let mut response = (code.status(), Json(ErrorBody { error: self })).into_response();
        if code == ErrorCode::Unauthorised {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<StoreError> for ApiError {
    /// Names no file: the path is for whoever reads the log of the worker.
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "a request failed");
        let message = match error {
            StoreError::Busy { .. } => "the store is busy: another process has been writing to it for too long",
            StoreError::Unusable { .. } | StoreError::Damaged { .. } | StoreError::Failed { .. } => {
                "the store failed; the worker's log says why"
            }
        };
        Self::new(ErrorCode::Store, message)
    }
}

impl From<VerbError> for ApiError {
    fn from(error: VerbError) -> Self {
        match error {
            VerbError::NotFound(_) | VerbError::NoRun(_) => Self::not_found(),
            VerbError::NotTracked { .. } => Self::new(ErrorCode::NotTracked, error.to_string()),
            VerbError::Generation { .. } => Self::new(ErrorCode::Generation, error.to_string()),
            VerbError::Ended { reason, .. } => Self::ended(&reason),
            VerbError::Conflict(message) => Self::new(ErrorCode::Conflict, message),
            VerbError::Runner(message) => Self::new(ErrorCode::Runner, message),
            VerbError::Invalid(message) => Self::new(ErrorCode::Invalid, message),
            VerbError::Store(error) => error.into(),
        }
    }
}

impl From<RunError> for ApiError {
    fn from(error: RunError) -> Self {
        let code = match error {
            RunError::Stopped => ErrorCode::Stopping,
            RunError::Panicked(_) => return Self::new(ErrorCode::Internal, "the pass failed unexpectedly"),
            RunError::Overran => ErrorCode::Timeout,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_a_failure() {
        for code in ErrorCode::ALL {
            assert!(code.status().is_client_error() || code.status().is_server_error(), "{code}");
        }
    }

    #[test]
    fn a_store_error_names_no_file() {
        let error = StoreError::Failed { store: "/home/ada/sexton.db".to_owned(), why: "disk full".to_owned() };
        assert!(!ApiError::from(error).message.contains("/home"));
    }
}
