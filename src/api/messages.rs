//! Giving a session's engine a message.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::api::access::Caller;
use crate::api::body::{Body, Query};
use crate::api::error::{ApiError, ErrorCode};
use crate::api::owned::Owned;
use crate::api::state::{Api, Shared};
use crate::session::{Id, Session};
use crate::verbs::{self, VerbError, person};

/// A message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Message {
    /// What the engine is to read.
    text: String,
    /// What the sender calls it: a message of an id that the engine was given before is not given to it again.
    message_id: Option<Id>,
}

/// How a message is sent.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct How {
    /// Start the engine again, with its conversation, if the session has ended
    #[serde(default)]
    resume: bool,
}

/// Give a session's engine a message; answered once its runner took it
///
/// 410 when the session has ended: the message says why and when, and whether `resume=true` takes it up again. With
/// `resume=true`, 409 when it has no conversation to take up or its owner has another session open in that repo.
#[utoipa::path(post, path = "/v1/sessions/{id}/messages", operation_id = "send_message", request_body = Message,
    params(("id" = Id, Path), How), responses((status = 200, description = "The runner took it", body = Session)))]
pub(super) async fn send(
    State(api): State<Shared>,
    caller: Caller,
    Owned(session): Owned,
    Query(how): Query<How>,
    Body(message): Body<Message>,
) -> Result<Json<Session>, ApiError> {
    let mut told = verbs::Message::new(message.text);
    if let Some(id) = message.message_id {
        told.message_id = id;
    }
    let sent = if how.resume {
        verbs::send_resuming(api.tools(), &session.id, &told, &person(api.tools(), &caller.owner)).await
    } else {
        verbs::send_message(api.tools(), &session.id, &told).await
    };
    let session = match sent {
        Err(VerbError::Ended { id, .. }) => return Err(ended(&api, &id).await?),
        sent => sent?,
    };
    api.worker.recorder.hear(&session);
    Ok(Json(session))
}

/// Says why a message was not delivered, and how it would be.
async fn ended(api: &Api, id: &Id) -> Result<ApiError, ApiError> {
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
