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
use crate::api::owned::Owned;
use crate::api::state::Shared;
use crate::api::stream::{LOOK_AGAIN, Permit, last_event};
use crate::attach::{Event, Follower, Looking, Seat};
use crate::protocol::Cursor;
use crate::session::{Id, Session};

/// How a client follows.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct How {
    /// The id of the last event that was taken: the stream goes on behind it. `Last-Event-ID` says the same, and wins
    #[param(value_type = Option<String>)]
    cursor: Option<Cursor>,
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
    let (permit, cursor) = (Permit::new(&api, headers), last_event(headers)?.or(how.cursor));
    let session = if how.looking && session.is_open() { look_first(&api, session).await? } else { session };
    let release_after = api.tools().config().server.release_after.0;
    let seat = how.client.map(|client| api.seats.take(&session.id, &client, release_after));
    let cursor = cursor.or(seat.as_ref().and_then(|seat| seat.cursor));
    let id = session.id.clone();
    let (live, follower) = Follower::begin(api.tools(), session, cursor).await?;
    let looking = how.looking.then(|| Looking::begin(api.tools().clock.elapsed()));
    let feed = Feed { api, id, permit, follower, first: Some(Event::Live(Box::new(live))), seat, looking };
    let events = stream::unfold(feed, |mut feed| async {
        let event = feed.next().await?;
        Some((Ok::<_, Infallible>(event), feed))
    });
    Ok(Sse::new(events).into_response())
}

/// Records that somebody looks before anything is shown. That the engine is gone is no reason not to show its end.
async fn look_first(api: &Shared, session: Session) -> Result<Session, ApiError> {
    match activity::touch(api, &session, Looking::KIND).await {
        Ok(_) => Ok(session),
        Err(error) if error.code == ErrorCode::Store => Err(error),
        Err(_) => Ok(api.tools().store.find_session(&session.id).await?.unwrap_or(session)),
    }
}

/// One client's stream.
struct Feed {
    api: Shared,
    id: Id,
    permit: Permit,
    follower: Follower,
    first: Option<Event>,
    seat: Option<Seat>,
    /// None when nobody looks.
    looking: Option<Looking>,
}

impl Feed {
    /// Returns what the client gets next; none when the stream is over: at the end, when the same client has come again,
    /// when its token does not hold any more, and when the worker stops.
    async fn next(&mut self) -> Option<sse::Event> {
        let event = match self.first.take() {
            Some(first) => first,
            None => self.wait().await?,
        };
        if !self.permit.holds().await {
            return None;
        }
        self.look();
        let shown = sse::Event::default().event(event.name());
        let Some(cursor) = event.cursor() else { return Some(shown.data(event.data())) };
        if let Some(seat) = &self.seat {
            seat.served(cursor);
        }
        Some(shown.id(cursor.to_string()).data(event.data()))
    }

    /// Waits for what the session says; whoever may not listen any more is not kept waiting for it.
    async fn wait(&mut self) -> Option<Event> {
        let replaced = async {
            match &self.seat {
                Some(seat) => seat.replaced.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let (permit, next) = (&mut self.permit, self.follower.next());
        let refused = async {
            loop {
                tokio::time::sleep(LOOK_AGAIN).await;
                if !permit.look().await {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = self.api.stopping.cancelled() => None,
            () = replaced => None,
            () = refused => None,
            event = next => event,
        }
    }

    /// Records that somebody still looks: the client has just taken what came before. Nobody waits for it.
    fn look(&mut self) {
        let now = self.api.tools().clock.elapsed();
        if !self.looking.as_mut().is_some_and(|looking| looking.is_due(now)) {
            return;
        }
        let (api, id) = (self.api.clone(), self.id.clone());
        self.api.requests.spawn(async move {
            // Its generation may be another one by now, and it may have ended.
            let row = api.tools().store.find_session(&id).await;
            if let Some(session) = row.ok().flatten().filter(Session::is_open)
                && let Err(error) = activity::touch(&api, &session, Looking::KIND).await
            {
                tracing::debug!(session_id = %id, error = error.message, "that somebody looks was not recorded");
            }
        });
    }
}
