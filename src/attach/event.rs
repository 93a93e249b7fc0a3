//! What a client that follows a session is told.

use serde::Serialize;
use serde_json::{Value, json};

use crate::protocol::{Cursor, TrackedSession};
use crate::session::Session;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Where things stand: the first event, and again when what came before it does not go on.
    Live(Box<Live>),
    /// A line of output.
    Line {
        /// The cursor behind it.
        cursor: Cursor,
        /// The details, as JSON.
        data: String,
    },
    /// A part of the output is not kept any more.
    Gap {
        /// Where whole lines go on.
        cursor: Cursor,
        /// The details, as JSON.
        data: String,
    },
    /// The engine is gone: the last event.
    Ended {
        /// The cursor behind all output, where that is known.
        cursor: Option<Cursor>,
        /// The details, as JSON.
        data: String,
    },
    /// Nothing happens; the connection is there.
    Ping,
}

/// Where a session stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Live {
    /// Its row.
    pub session: Session,
    /// How its engine stands by its runner's word; none when it is gone or its runner does not say it.
    pub state: Option<TrackedSession>,
    /// What the engine has written so far in the turn that runs, up to the cursor; empty for a client that goes on.
    pub text: String,
    /// Where the events that follow begin; none when nobody knows.
    pub cursor: Option<Cursor>,
    /// The client goes on where it was.
    pub resumed: bool,
}

impl Event {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Live(_) => "live",
            Self::Line { .. } => "line",
            Self::Gap { .. } => "gap",
            Self::Ended { .. } => "ended",
            Self::Ping => "ping",
        }
    }

    /// Returns the cursor behind it: a client that comes back with it gets what follows.
    #[must_use]
    pub fn cursor(&self) -> Option<Cursor> {
        match self {
            Self::Live(live) => live.cursor,
            Self::Line { cursor, .. } | Self::Gap { cursor, .. } => Some(*cursor),
            Self::Ended { cursor, .. } => *cursor,
            Self::Ping => None,
        }
    }

    /// Returns its details, as JSON in one line.
    #[must_use]
    pub fn data(&self) -> String {
        match self {
            // Plain data with text keys: nothing of it can fail to be written.
            Self::Live(live) => serde_json::to_string(live).unwrap_or_default(),
            Self::Line { data, .. } | Self::Gap { data, .. } | Self::Ended { data, .. } => data.clone(),
            Self::Ping => "{}".to_owned(),
        }
    }

    /// Makes the end of a session out of its row, for whoever can learn of it from nobody else.
    #[must_use]
    pub(super) fn ended_by_row(session: &Session, cursor: Option<Cursor>) -> Self {
        let reason = session.end_reason.as_deref().map_or(Value::Null, Value::from);
        let data = json!({"session_id": session.id, "generation": session.generation, "reason": reason});
        Self::Ended { cursor, data: data.to_string() }
    }
}
