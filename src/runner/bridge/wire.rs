//! The lines between the adapter and the bridge.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A line to the bridge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Command {
    /// Opens the conversation: takes this session up, or begins one.
    Open {
        /// The session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
    },
    /// A person's message for the open session.
    Message {
        /// What it says.
        text: String,
    },
    /// Aborts the open session's turn, or another session's.
    Abort {
        /// The other session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_id: Option<String>,
    },
    /// Asks which sessions are at work.
    Status,
    /// Aborts the open session and opens a fresh one.
    Clear,
}

/// A line from the bridge, but for events, which are passed on unread: `{"type":"event","event":…}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Line {
    /// The session is open and takes messages.
    Ready {
        /// The session.
        session_id: String,
        /// Where the server answers.
        url: String,
    },
    /// Which sessions are at work.
    Status {
        /// The sessions that are.
        working: Vec<String>,
        /// After a loss: the questions that wait for an answer, by their ids, with the session that asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asking: Option<BTreeMap<String, String>>,
    },
    /// The stream of events broke off; a status follows once it is there again.
    Lost {
        /// Why.
        message: String,
    },
    /// The server refused a command.
    Refused {
        /// Which, by its type.
        command: String,
        /// What the server said.
        message: String,
    },
    /// An event that was too long to be passed on.
    Dropped,
}
