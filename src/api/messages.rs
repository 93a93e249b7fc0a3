//! Giving a session's engine a message, as whoever uses it or as a co-pilot.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::api::access::Caller;
use crate::api::body::{Body, Query};
use crate::api::error::{ApiError, ErrorCode};
use crate::api::owned::Owned;
use crate::api::state::{Api, Shared};
use crate::protocol::TurnOutcome;
use crate::session::{ActivityKind, Id, Session};
use crate::verbs::{self, VerbError, person};

/// A message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Message {
    /// What the engine is to read.
    text: String,
    /// What its sender calls it: a message of an id that this start of the engine took before is not written again.
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

/// How a message is sent.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct How {
    /// Start the engine again, with its conversation, if the session has ended
    #[serde(default)]
    resume: bool,
}

/// Give a session's engine a message; answered once its runner took it, or once the turn is over
///
/// With `wait` the answer has a `turn`: `over`, `running` when the wait was over first, `untold` when the engine does not
/// tell its turns. 410 when the session has ended: the message says why and when, and whether `resume=true` takes it up
/// again. 404 when its runner holds no engine for it, 409 when it holds another start. With `resume=true`, 409 when it has no conversation to take up or its owner has another session open in that repo.
#[utoipa::path(post, path = "/v1/sessions/{id}/messages", operation_id = "send_message", request_body = Message,
    params(("id" = Id, Path), How), responses((status = 200, description = "The runner took it", body = Sent)))]
pub(super) async fn send(
    State(api): State<Shared>,
    caller: Caller,
    Owned(session): Owned,
    Query(how): Query<How>,
    Body(message): Body<Message>,
) -> Result<Json<Sent>, ApiError> {
    let message = message.counting_as(ActivityKind::Message);
    let sent = if how.resume {
        let actor = person(api.tools(), &caller.owner);
        verbs::send_resuming(api.tools(), &session.id, &message, &actor).await
    } else {
        verbs::send(api.tools(), &session.id, &message).await
    };
    answer(&api, sent).await.map(Json)
}

/// Take a turn as a co-pilot: a message that counts as one of another kind
#[utoipa::path(post, path = "/v1/sessions/{id}/copilot", operation_id = "take_copilot_turn", request_body = Message,
    params(("id" = Id, Path)), responses((status = 200, description = "The runner took it", body = Sent)))]
pub(super) async fn copilot(
    State(api): State<Shared>,
    Owned(session): Owned,
    Body(message): Body<Message>,
) -> Result<Json<Sent>, ApiError> {
    let message = message.counting_as(ActivityKind::Copilot);
    answer(&api, verbs::send(api.tools(), &session.id, &message).await).await.map(Json)
}

impl Message {
    fn counting_as(self, kind: ActivityKind) -> verbs::Message {
        let Self { text, message_id, wait } = self;
        verbs::Message { text, message_id: message_id.unwrap_or_default(), kind, wait }
    }
}

/// Answers what came of a message. That the runner heard of it counts for the next touches.
async fn answer(api: &Api, sent: Result<verbs::Sent, VerbError>) -> Result<Sent, ApiError> {
    let verbs::Sent { session, turn } = match sent {
        Err(VerbError::Ended { id, .. }) => return Err(ended(api, &id).await?),
        sent => sent?,
    };
    if session.is_open() {
        api.worker.recorder.hear(&session);
    }
    Ok(Sent { session, turn })
}

/// Says why a message was not delivered, and how it would be.
async fn ended(api: &Api, id: &Id) -> Result<ApiError, ApiError> {
    if api.tools().store.find_session(id).await?.is_some_and(|row| row.is_open()) {
        let message =
            "the session is being started or moved just now, and the message was not delivered; send it again";
        return Ok(ApiError::new(ErrorCode::Conflict, message));
    }
    let farewell = verbs::farewell(api.tools(), id).await?;
    let offer = if farewell.may_resume {
        "send it with ?resume=true to start its engine again with its conversation"
    } else {
        "its engine told no id of its conversation, so it cannot be resumed"
    };
    let story = farewell.story.unwrap_or_default();
    let message = format!("{}, and the message was not delivered; {offer}. {story}", farewell.how);
    Ok(ApiError::new(ErrorCode::Ended, message.trim_end()))
}
