//! Lists in pieces: `{"items":[…],"next":…}`.

use serde::Serialize;
use utoipa::ToSchema;

use crate::api::error::{ApiError, ErrorCode};

/// How many items a page holds when nothing is said.
const USUAL: u32 = 200;

/// The most items of a page.
const MOST: u32 = 1_000;

/// One piece of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Page<T> {
    /// The items.
    pub(super) items: Vec<T>,
    /// What `after` must say to get the next piece; null at the end of the list.
    pub(super) next: Option<String>,
}

impl<T> Page<T> {
    /// Makes a page of at most `limit` items out of up to one more, which tells whether there is a next one.
    pub(super) fn of(mut found: Vec<T>, limit: u32, cursor: impl Fn(&T) -> String) -> Self {
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        let next = found.last().filter(|_| more).map(cursor);
        Self { items: found, next }
    }
}

/// Reads the size of a page.
///
/// # Errors
/// 400 when it is none.
pub(super) fn size(limit: Option<u32>) -> Result<u32, ApiError> {
    match limit.unwrap_or(USUAL) {
        limit @ 1..=MOST => Ok(limit),
        _ => Err(ApiError::new(ErrorCode::BadQuery, format!("limit is a number from 1 to {MOST}"))),
    }
}
