//! Whether a session's engine works right now; asking is no use of it.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::state::Shared;
use crate::session::Id;
use crate::verbs;
use crate::words::words;

words! {
    /// Whether a question reached the runner.
    Asked {
        /// It answered; of the engine it may say nothing all the same.
        Answered = "answered",
        /// It gave no answer that may be believed.
        Unreached = "unreached",
    }
}

/// What a session's engine does. Null is what nobody knows.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Generating {
    /// The session.
    session_id: Id,
    /// Whether a turn is running.
    generating: Option<bool>,
    /// How many background tasks are running.
    background_tasks: Option<u32>,
    /// Whether the engine waits for a person's answer.
    awaiting_input: Option<bool>,
    /// Whether the running turn has been silent for so long that its runner calls it stalled.
    stalled: Option<bool>,
    /// Whether the runner answered.
    runner: Asked,
    /// Why it cannot be told whether a turn is running; null when it can.
    why: Option<String>,
}

/// Say whether a session's engine works right now
#[utoipa::path(get, path = "/v1/sessions/{id}/generating", operation_id = "is_generating",
    params(("id" = Id, Path)), responses((status = 200, description = "As its runner says", body = Generating)))]
pub(super) async fn generating(State(api): State<Shared>, Owned(session): Owned) -> Result<Json<Generating>, ApiError> {
    if !session.is_open() {
        return Err(ApiError::ended(session.end_reason.as_deref().unwrap_or("for an unknown reason")));
    }
    let verbs::Generating { answered, generating, background_tasks, awaiting_input, stalled, why } =
        verbs::generating(api.tools(), &session).await?;
    let runner = if answered { Asked::Answered } else { Asked::Unreached };
    let session_id = session.id;
    Ok(Json(Generating { session_id, generating, background_tasks, awaiting_input, stalled, runner, why }))
}
