//! Following a session as a stream of server-sent events, for pages and terminals that come and go.
//!
//! A stream holds no buffer of its own: the next event is fetched when the client has room for it. Whoever says that
//! somebody looks uses the session for as long as it takes events; a hidden tab, or one that is gone, does not.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

use std::convert::Infallible;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse;
use axum::response::{IntoResponse, Response, Sse};
use futures_util::stream;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::api::activity;
use crate::api::body::Query;
use crate::api::error::{ApiError, ErrorCode};
use crate::api::hosts::single;
use crate::api::owned::Owned;
use crate::api::state::Shared;
use crate::attach::{Event, Follower, Seat};
use crate::session::{ActivityKind, Id, Session};
use crate::time::{MINUTE, Ms};

/// How often an open stream at which somebody looks is a use.
const LOOK_EVERY: Ms = MINUTE;

/// How a client follows.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct How {
    /// The id of the last event that was taken: the stream goes on behind it. `Last-Event-ID` says the same, and wins
    cursor: Option<u64>,
    /// Who follows: of each client only the newest stream of a session goes on, and a return without a cursor goes on
    /// where it was served to
    #[param(value_type = Option<String>)]
    client: Option<Id>,
    /// Whether somebody looks, which is a use of the session
    #[serde(default)]
    looking: bool,
}

/// Follow what a session's engine says
///
/// The first event is `live`: the row, the state of the engine, the text of the turn that runs and the cursor; then come
/// `line`, `gap` and `ping`, and `ended` as the last one. Each id is a cursor.
#[utoipa::path(get, path = "/v1/sessions/{id}/events", operation_id = "follow_session", params(("id" = Id, Path), How),
    responses((status = 200, description = "Events, until the engine is gone", content_type = "text/event-stream",
    body = String)))]
pub(super) async fn events(
    State(api): State<Shared>,
    Owned(session): Owned,
    headers: HeaderMap,
    Query(how): Query<How>,
) -> Result<Response, ApiError> {
    follow(api, session, &headers, how).await
}

/// Answers with the events of a session that is the caller's.
pub(super) async fn follow(api: Shared, session: Session, headers: &HeaderMap, how: How) -> Result<Response, ApiError> {
    let cursor = last_event(headers)?.or(how.cursor);
    let session = if how.looking && session.is_open() { look_first(&api, session).await? } else { session };
    let release_after = api.tools().config().server.release_after.0;
    let seat = how.client.map(|client| api.seats.take(&session, &client, release_after));
    let cursor = cursor.or(seat.as_ref().and_then(|seat| seat.cursor));
    let id = session.id.clone();
    let (live, follower) = Follower::begin(api.tools(), session, cursor).await?;
    let looked_at = how.looking.then(|| api.tools().clock.elapsed());
    let feed = Feed { api, id, follower, first: Some(Event::Live(Box::new(live))), seat, looked_at };
    let events = stream::unfold(feed, |mut feed| async {
        let event = feed.next().await?;
        Some((Ok::<_, Infallible>(event), feed))
    });
    Ok(Sse::new(events).into_response())
}

/// Reads what a client that comes back by itself, as a browser's source of events does, says in a header.
fn last_event(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let name = header_name();
    if !headers.contains_key(&name) {
        return Ok(None);
    }
    let cursor = single(headers, &name).and_then(|id| id.trim().parse().ok());
    let bad = || ApiError::new(ErrorCode::BadQuery, "Last-Event-ID is none of an event of this stream");
    cursor.map(Some).ok_or_else(bad)
}

fn header_name() -> axum::http::HeaderName {
    axum::http::HeaderName::from_static("last-event-id")
}

/// Records that somebody looks before anything is shown. That the engine is gone is no reason not to show its end.
async fn look_first(api: &Shared, session: Session) -> Result<Session, ApiError> {
    match activity::touch(api, &session, ActivityKind::Capture).await {
        Ok(_) => Ok(session),
        Err(error) if error.code == ErrorCode::Store => Err(error),
        Err(_) => Ok(api.tools().store.find_session(&session.id).await?.unwrap_or(session)),
    }
}

/// One client's stream.
struct Feed {
    api: Shared,
    id: Id,
    follower: Follower,
    first: Option<Event>,
    seat: Option<Seat>,
    /// When it last counted as a use; none when nobody looks.
    looked_at: Option<Ms>,
}

impl Feed {
    /// Returns what the client gets next; none when the stream is over: at the end, when the same client has come again,
    /// and when the worker stops.
    async fn next(&mut self) -> Option<sse::Event> {
        let event = match self.first.take() {
            Some(first) => first,
            None => {
                let (api, seat) = (&self.api, &self.seat);
                let replaced = async {
                    match seat {
                        Some(seat) => seat.replaced.cancelled().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = api.stopping.cancelled() => return None,
                    () = replaced => return None,
                    event = self.follower.next() => event?,
                }
            }
        };
        self.look();
        let shown = sse::Event::default().event(event.name());
        let Some(cursor) = event.cursor() else { return Some(shown.data(event.data())) };
        if let Some(seat) = &self.seat {
            seat.served(cursor);
        }
        Some(shown.id(cursor.to_string()).data(event.data()))
    }

    /// Records that somebody still looks: the client has just taken what came before. Nobody waits for it.
    fn look(&mut self) {
        let now = self.api.tools().clock.elapsed();
        if self.looked_at.is_none_or(|at| now - at < LOOK_EVERY) {
            return;
        }
        self.looked_at = Some(now);
        let (api, id) = (self.api.clone(), self.id.clone());
        self.api.requests.spawn(async move {
            // Its generation may be another one by now, and it may have ended.
            let row = api.tools().store.find_session(&id).await;
            if let Some(session) = row.ok().flatten().filter(Session::is_open)
                && let Err(error) = activity::touch(&api, &session, ActivityKind::Capture).await
            {
                tracing::debug!(session_id = %id, error = error.message, "that somebody looks was not recorded");
            }
        });
    }
}
