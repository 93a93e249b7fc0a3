//! What an engine wrote: the half-written text of its turn, and pages of its kept output.
//!
//! Whoever has a [`Cursor`] gets what came behind it in the output of that start, each line once.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::protocol::{Cursor, Origin, TrackedSession};
use crate::session::Id;

/// The query of `GET /coding/live`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRequest {
    /// The session.
    pub session_id: Id,
    /// The lowest start of the session that is meant: the end of an earlier one is none of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Only how the engine stands is asked for, and no text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub textless: bool,
    /// On whose behalf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
}

/// The answer to `GET /coding/live`: where a client that wants no old messages begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveAnswer {
    /// Who answers.
    #[serde(flatten)]
    pub origin: Origin,
    /// The session.
    pub session_id: Id,
    /// Which start of the session its engine belongs to.
    pub generation: i64,
    /// The engine as it stands.
    pub session: TrackedSession,
    /// What it has written in the turn that runs, up to `cursor`; the newest part of it where it is long.
    pub text: String,
    /// Up to where its output was read: the end of a line.
    pub cursor: Cursor,
}

/// The query of `GET /coding/history`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRequest {
    /// The session.
    pub session_id: Id,
    /// Only what came behind this cursor; none begins with the oldest that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Cursor>,
    /// At most so many lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The newest so many lines instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u32>,
    /// On whose behalf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
}

/// The answer to `GET /coding/history`: a page of what is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryAnswer {
    /// Who answers.
    #[serde(flatten)]
    pub origin: Origin,
    /// The session.
    pub session_id: Id,
    /// Which start of the session the engine belongs to.
    pub generation: i64,
    /// The lines, oldest first.
    pub items: Vec<OutputLine>,
    /// What is not kept any more, before the first of them.
    #[serde(default)]
    pub gap: Option<Gap>,
    /// Behind the last of them: what `after` says to get the next page, and where events go on.
    pub cursor: Cursor,
    /// The same, while there is a next page now.
    #[serde(default)]
    pub next: Option<Cursor>,
}

/// A line of output. Exactly one of `line`, `hex` and `oversize` says what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputLine {
    /// Where it ends: the cursor behind it.
    pub cursor: Cursor,
    /// What it says, without its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Its bytes, where they are no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hex: Option<String>,
    /// It is too long to be told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oversize: bool,
}

impl OutputLine {
    /// Makes one out of the bytes of a line; none stands for one that is too long.
    #[must_use]
    pub fn new(cursor: Cursor, bytes: Option<&[u8]>) -> Self {
        let line = Self { cursor, line: None, hex: None, oversize: false };
        match bytes.map(std::str::from_utf8) {
            None => Self { oversize: true, ..line },
            Some(Ok(text)) => Self { line: Some(text.to_owned()), ..line },
            Some(Err(_)) => Self { hex: bytes.map(hex), ..line },
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A part of the output that is not kept any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Gap {
    /// Behind the last line before it.
    pub from: Cursor,
    /// Where whole lines go on.
    pub to: Cursor,
}
