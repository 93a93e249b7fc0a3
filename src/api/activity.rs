//! Saying that a session is used.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::activity::Heard;
use crate::api::body::Body;
use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::state::{Api, Shared};
use crate::session::{ActivityKind, Id, Session};
use crate::verbs::{VerbError, close_if_ended};
use crate::words::words;

words! {
    /// Whether the runner knows of a use.
    Reach {
        /// It does: it was told now, or a short while ago.
        Touched = "touched",
        /// It could not be reached; the row alone has it.
        Unreached = "unreached",
    }
}

/// A use.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Use {
    /// What used it.
    kind: ActivityKind,
}

/// What became of a use.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Recorded {
    /// The session.
    session_id: Id,
    /// It counts; where it does not, the answer is an error.
    recorded: bool,
    /// Whether the runner knows of it.
    runner: Reach,
}

/// Say that a session is used
///
/// 410 when its engine has ended (the row is closed then), 404 when its runner holds none, 409 when it holds another start.
#[utoipa::path(post, path = "/v1/sessions/{id}/activity", operation_id = "record_activity", request_body = Use,
    params(("id" = Id, Path)), responses((status = 200, description = "It counts", body = Recorded)))]
pub(super) async fn record(
    State(api): State<Shared>,
    Owned(session): Owned,
    Body(used): Body<Use>,
) -> Result<Json<Recorded>, ApiError> {
    let runner = touch(&api, &session, used.kind).await?;
    Ok(Json(Recorded { session_id: session.id, recorded: true, runner }))
}

/// Records a use: runner first, then row.
///
/// # Errors
/// When the session has ended by its row or by its runner's word, which closes the row; when the runner holds no engine
/// for it, or another start of it; when the store fails. None of these is a use.
pub(super) async fn touch(api: &Api, session: &Session, kind: ActivityKind) -> Result<Reach, ApiError> {
    if !session.is_open() {
        return Err(ApiError::ended(session.end_reason.as_deref().unwrap_or("for an unknown reason")));
    }
    match api.worker.recorder.touch(session, kind).await? {
        Heard::Yes => Ok(Reach::Touched),
        Heard::Unreached => Ok(Reach::Unreached),
        Heard::Ended(reason) => {
            if let Err(error) = close_if_ended(api.tools(), session).await {
                tracing::warn!(session_id = %session.id, %error, "the row of an ended engine is left to the next pass");
            }
            Err(ApiError::ended(&reason))
        }
        Heard::NotTracked => Err(VerbError::not_tracked(session).into()),
        Heard::Generation => Err(VerbError::generation(session).into()),
    }
}
