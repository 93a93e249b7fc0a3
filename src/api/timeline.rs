//! Reading what happened to a session; reading it is using the session.

#![expect(unused_qualifications, reason = "in what utoipa makes of queries")]

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::api::activity;
use crate::api::body::Query;
use crate::api::error::{ApiError, ErrorCode};
use crate::api::owned::Owned;
use crate::api::page::{self, Page};
use crate::api::state::Shared;
use crate::entry::Entry;
use crate::session::{ActivityKind, Id};
use crate::store::EntryFilter;
use crate::time::UtcMs;

/// Which piece of the timeline.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Piece {
    /// At most this many, 1 to 1000; 200 when nothing is said
    limit: Option<u32>,
    /// What `next` said
    after: Option<String>,
}

/// Read what happened to a session, oldest first; of an open one this is a use
#[utoipa::path(get, path = "/v1/sessions/{id}/timeline", operation_id = "read_timeline",
    params(("id" = Id, Path), Piece), responses((status = 200, description = "A page of it", body = Page<Entry>)))]
pub(super) async fn read(
    State(api): State<Shared>,
    Owned(session): Owned,
    Query(piece): Query<Piece>,
) -> Result<Json<Page<Entry>>, ApiError> {
    let limit = page::size(piece.limit)?;
    let after = piece.after.as_deref().map(place).transpose()?;
    if session.is_open() {
        // That the engine is gone is no reason not to read; what closes the row now is read below.
        let touched = activity::touch(&api, &session, ActivityKind::Timeline).await;
        touched.map(drop).or_else(|error| if error.code == ErrorCode::Store { Err(error) } else { Ok(()) })?;
    }
    let filter = EntryFilter { session: Some(session.id), after, limit: Some(limit + 1), ..EntryFilter::default() };
    let found = api.tools().store.list_timeline(&filter).await?;
    Ok(Json(Page::of(found, limit, |entry| format!("{}.{}", entry.at.0, entry.id))))
}

/// Reads a place in a timeline, as a page's `next` names it.
fn place(text: &str) -> Result<(UtcMs, Id), ApiError> {
    let parts = text.split_once('.');
    let place = parts.and_then(|(at, id)| Some((UtcMs(at.parse().ok()?), id.parse().ok()?)));
    place.ok_or_else(|| ApiError::new(ErrorCode::BadQuery, "after must be what `next` said"))
}
