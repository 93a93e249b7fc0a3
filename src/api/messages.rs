//! Giving a session's engine a message, as whoever uses it or as a co-pilot.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::body::Body;
use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::state::{Api, Shared};
use crate::protocol::TurnOutcome;
use crate::session::{ActivityKind, Id, Session};
use crate::verbs;

/// A message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Message {
    /// What the engine is to read.
    text: String,
    /// What its sender calls it: a message of an id that was taken before is not written again.
    message_id: Option<Id>,
    /// Whether the answer waits until the turn is over, at most as long as the runner lets anybody wait.
    #[serde(default)]
    wait: bool,
}

/// The session after a message: its row, and what became of the turn.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Sent {
    /// The row.
    #[serde(flatten)]
    session: Session,
    /// What became of the turn; only where it was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<TurnOutcome>,
}

/// Give a session's engine a message; answered once its runner took it, or once the turn is over
///
/// With `wait` the answer has a `turn`: `over`, `running` when the wait was over first, `untold` when the engine does not
/// tell its turns. 410 when the session has ended.
#[utoipa::path(post, path = "/v1/sessions/{id}/messages", operation_id = "send_message", request_body = Message,
    params(("id" = Id, Path)), responses((status = 200, description = "The runner took it", body = Sent)))]
pub(super) async fn send(
    State(api): State<Shared>,
    Owned(session): Owned,
    Body(message): Body<Message>,
) -> Result<Json<Sent>, ApiError> {
    deliver(&api, &session.id, message, ActivityKind::Message).await.map(Json)
}

/// Take a turn as a co-pilot: a message that counts as one of another kind
#[utoipa::path(post, path = "/v1/sessions/{id}/copilot", operation_id = "take_copilot_turn", request_body = Message,
    params(("id" = Id, Path)), responses((status = 200, description = "The runner took it", body = Sent)))]
pub(super) async fn copilot(
    State(api): State<Shared>,
    Owned(session): Owned,
    Body(message): Body<Message>,
) -> Result<Json<Sent>, ApiError> {
    deliver(&api, &session.id, message, ActivityKind::Copilot).await.map(Json)
}

async fn deliver(api: &Api, id: &Id, message: Message, kind: ActivityKind) -> Result<Sent, ApiError> {
    let Message { text, message_id, wait } = message;
    let message = verbs::Message { text, message_id, kind, wait };
    let verbs::Sent { session, turn } = verbs::send(api.tools(), id, &message).await?;
    if session.is_open() {
        api.worker.recorder.hear(&session);
    }
    Ok(Sent { session, turn })
}
