//! Reading what a session's engine has said: what its terminal shows now, and pages of what is kept.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::api::activity::{self, Reach};
use crate::api::body::Query;
use crate::api::error::ApiError;
use crate::api::owned::Owned;
use crate::api::page;
use crate::api::state::Shared;
use crate::attach;
use crate::protocol::{Cursor, Gap, HistoryAnswer, OutputLine};
use crate::session::{ActivityKind, Id};
use crate::verbs::VerbError;

/// How many of the newest lines are shown when nothing is said.
const SCREEN: u32 = 50;

/// Which part of what is kept.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Part {
    /// Only what came behind this cursor: what `next` said, or the id of an event
    #[param(value_type = Option<String>)]
    after: Option<Cursor>,
    /// At most this many lines, 1 to 1000; 200 when nothing is said. A page of long lines has fewer
    limit: Option<u32>,
}

/// A page of output.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct History {
    /// The lines, oldest first.
    items: Vec<OutputLine>,
    /// What is not kept any more, before the first of them.
    gap: Option<Gap>,
    /// What `after` must say to get the next page; null where there is none now.
    next: Option<Cursor>,
}

/// Read what a session's engine has said, as far as its runner keeps it; no use of the session
#[utoipa::path(get, path = "/v1/sessions/{id}/history", operation_id = "read_history",
    params(("id" = Id, Path), Part), responses((status = 200, description = "A page of it", body = History)))]
pub(super) async fn history(
    State(api): State<Shared>,
    Owned(session): Owned,
    Query(part): Query<Part>,
) -> Result<Json<History>, ApiError> {
    let piece = attach::Piece::After(part.after, page::size(part.limit)?);
    let found = attach::page(api.tools(), &session, piece).await?;
    // That a runner keeps nothing of what has ended is an answer; of an open session it is a fault.
    match found {
        None if session.is_open() => Err(VerbError::not_tracked(&session).into()),
        found => Ok(Json(found.map_or_else(
            || History { items: Vec::new(), gap: None, next: None },
            |HistoryAnswer { items, gap, next, .. }| History { items, gap, next },
        ))),
    }
}

/// How much is shown.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Screen {
    /// So many of the newest lines, 1 to 1000; 50 when nothing is said
    lines: Option<u32>,
}

/// What a session's terminal shows.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Captured {
    /// The session.
    session_id: Id,
    /// The newest lines, oldest first.
    items: Vec<OutputLine>,
    /// Behind the last of them: where events go on; null when the runner was not reached.
    cursor: Option<Cursor>,
    /// Whether the runner was reached; where it was not, there are no lines.
    runner: Reach,
}

/// Show the newest lines of a session's engine; this is a use of the session
///
/// 410 when its engine has ended, 404 when its runner holds none, 409 when it holds another start.
#[utoipa::path(get, path = "/v1/sessions/{id}/capture", operation_id = "capture_session",
    params(("id" = Id, Path), Screen), responses((status = 200, description = "They, newest last", body = Captured)))]
pub(super) async fn capture(
    State(api): State<Shared>,
    Owned(session): Owned,
    Query(screen): Query<Screen>,
) -> Result<Json<Captured>, ApiError> {
    let lines = page::size(Some(screen.lines.unwrap_or(SCREEN)))?;
    let runner = activity::touch(&api, &session, ActivityKind::Capture).await?;
    let session_id = session.id.clone();
    match attach::page(api.tools(), &session, attach::Piece::Newest(lines)).await {
        Ok(Some(page)) => Ok(Json(Captured { session_id, items: page.items, cursor: Some(page.cursor), runner })),
        Ok(None) => Err(VerbError::not_tracked(&session).into()),
        // The use is recorded all the same, and that is what the answer says.
        Err(_) if runner == Reach::Unreached => {
            Ok(Json(Captured { session_id, items: Vec::new(), cursor: None, runner }))
        }
        Err(error) => Err(error.into()),
    }
}
