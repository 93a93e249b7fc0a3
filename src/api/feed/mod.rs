//! `GET /v1/events`: what happens to the caller's sessions, to whoever waits for it, from any point on.
//!
//! The timeline is what is read, so nothing is kept for a listener but its place: `head.rs` watches for all of them where
//! the timeline ends, `reader.rs` takes one of them from its cursor to there and on.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

mod head;
mod reader;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::api::access::Caller;
use crate::api::body::Query;
use crate::api::error::{ApiError, ErrorCode};
use crate::api::state::{Api, Shared};
use crate::api::stream::{Permit, last_event};
use crate::entry::EntryKind;
use crate::session::Id;
use crate::store::{EventFilter, SessionFilter};

pub(super) use head::Listeners;

use reader::{Pace, Reader};

/// Which events, and from where on.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wish {
    /// The id of the last event that was got; without it, what happens from now on. The header Last-Event-ID goes before
    cursor: Option<String>,
    /// Only these kinds, with commas between them; all when none is named
    kinds: Option<String>,
    /// Only of this session
    #[param(value_type = Option<String>)]
    session_id: Option<Id>,
}

/// Listen to what happens to the caller's sessions, as a stream of server-sent events
///
/// Each event is named after its kind, its id is its place, and its data is `{"seq","session","entry"}`. Without a cursor
/// `ready` comes first, whose id is a cursor too. `gap` tells that what lay between `from` and `to` may be forgotten.
#[utoipa::path(get, path = "/v1/events", operation_id = "listen", params(Wish), responses(
    (status = 200, description = "A stream that does not end by itself", content_type = "text/event-stream", body = String),
))]
pub(super) async fn listen(
    State(api): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Query(wish): Query<Wish>,
) -> Result<Response, ApiError> {
    let permit = Permit::new(&api, &headers);
    let cursor = cursor(&headers, wish.cursor.as_deref())?;
    let filter = filter(&api, caller, wish).await?;
    let store = api.tools().store.clone();
    let head = store.event_head().await?;
    if let Some(cursor) = cursor.filter(|cursor| *cursor > head) {
        let message = format!("the cursor {cursor} lies beyond the newest event, which is {head}");
        return Err(ApiError::new(ErrorCode::BadQuery, message));
    }
    let (reader, listeners) = (Reader::new(store, filter, cursor, head), api.listeners.clone());
    Ok(reader.stream(&listeners, permit, Pace::default()).into_response())
}

/// Reads the cursor: the header goes before.
fn cursor(headers: &HeaderMap, asked: Option<&str>) -> Result<Option<i64>, ApiError> {
    let bad = || ApiError::new(ErrorCode::BadQuery, "a cursor is the id of an event: a whole number");
    let cursor = match (last_event::<u64>(headers)?, asked) {
        (Some(last), _) => last,
        (None, Some(text)) => text.parse().map_err(|_| bad())?,
        (None, None) => return Ok(None),
    };
    i64::try_from(cursor).map(Some).map_err(|_| bad())
}

/// Only the caller's own, or everybody's for who may see everything.
async fn filter(api: &Api, caller: Caller, wish: Wish) -> Result<EventFilter, ApiError> {
    let kinds = wish.kinds.as_deref().unwrap_or_default().split(',').map(str::trim).filter(|kind| !kind.is_empty());
    let kinds: Result<Vec<EntryKind>, String> = kinds.map(str::parse).collect();
    let kinds = kinds.map_err(|why| ApiError::new(ErrorCode::BadQuery, format!("kinds: {why}")))?;
    if let Some(id) = &wish.session_id {
        let session = api.tools().store.find_session(id).await?;
        session.filter(|session| caller.may_see(api, session)).ok_or_else(ApiError::not_found)?;
    }
    let SessionFilter { owner, ownerless_too, .. } = caller.filter(api);
    Ok(EventFilter { owner, ownerless_too, session: wish.session_id, kinds })
}
