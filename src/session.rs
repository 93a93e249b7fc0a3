//! Sessions, runs and enrolled runners as plain data: what a row says, without where it is stored; and the words for
//! what engines there are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::time::{Ms, UtcMs};
use crate::words::words;

/// An identifier of a session, run, sweep or runner: 1 to 64 of `A-Z a-z 0-9 _ -`.
///
/// Ids of several kinds share one shape, so one type checks them all; the names of fields and columns tell them apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(String);

impl Id {
    /// Makes a new id that sorts by the time of its making.
    #[must_use]
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7().simple().to_string())
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether `text` has the shape of an id.
    #[must_use]
    pub fn fits(text: &str) -> bool {
        (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    }
}

impl Default for Id {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if Self::fits(text) {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().take(64).collect();
        Err(format!("{shown:?} is not an id: 1 to 64 letters, digits, \"_\" or \"-\""))
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl PartialSchema for Id {
    fn schema() -> RefOr<Schema> {
        let description = "An identifier: letters, digits, \"_\" and \"-\"";
        let pattern = "^[A-Za-z0-9_-]{1,64}$";
        ObjectBuilder::new().schema_type(Type::String).description(Some(description)).pattern(Some(pattern)).into()
    }
}

impl ToSchema for Id {}

words! {
    /// Where a session stands in its life.
    Status {
        /// The row is there, the engine is being started.
        Starting = "starting",
        /// The engine runs, as far as the row knows.
        Active = "active",
        /// Closed, with a reason.
        Ended = "ended",
    }
}

words! {
    /// What used a session.
    ActivityKind {
        /// Somebody looked at its terminal.
        Capture = "capture",
        /// Somebody wrote to it.
        Message = "message",
        /// A run began, beat or finished in it.
        Run = "run",
        /// A co-pilot took a turn.
        Copilot = "copilot",
        /// Somebody read its timeline.
        Timeline = "timeline",
        /// Its engine worked.
        Engine = "engine",
        /// It was started or asked for.
        Start = "start",
        /// Somebody asked to keep it.
        Keep = "keep",
    }
}

words! {
    /// How a run stands.
    RunStatus {
        /// It is being worked on.
        Running = "running",
        /// It reported success.
        Succeeded = "succeeded",
        /// It reported failure.
        Failed = "failed",
        /// It was called off.
        Cancelled = "cancelled",
        /// It stopped sending heartbeats.
        Stale = "stale",
    }
}

words! {
    /// How an engine speaks.
    AdapterKind {
        /// The generic line form.
        Lines = "lines",
        /// Claude Code with stream-json on both sides.
        Claude = "claude",
        /// The app server of Codex.
        Codex = "codex",
        /// A server of OpenCode, behind a bridge that speaks lines.
        Opencode = "opencode",
        /// Any agent that speaks the Agent Client Protocol on its standard input and output.
        Acp = "acp",
    }
}

#[expect(clippy::derivable_impls, reason = "the words are declared by a macro that derives the same for all of them")]
impl Default for AdapterKind {
    fn default() -> Self {
        Self::Lines
    }
}

/// The row of a session. Every field is the column of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Session {
    /// Its id, never used again.
    pub id: Id,
    /// The runner that holds, or held, its engine.
    pub runner_id: Id,
    /// Whose it is; none only in legacy rows.
    pub owner_id: Option<String>,
    /// The folder or repository that it works in.
    pub repo: String,
    /// The engine's name, a key of `[engines]` on its runner.
    pub engine: String,
    /// The engine's own id of the conversation, with which it can be resumed.
    pub engine_session_id: Option<String>,
    /// Where it stands in its life.
    pub status: Status,
    /// Which start of the session its engine belongs to: 1, 2, …
    pub generation: i64,
    /// How often this generation was reopened after it had been closed.
    pub reopened: i64,
    /// When the session was first started.
    pub started_at: Option<UtcMs>,
    /// When its engine was last started.
    pub attached_at: Option<UtcMs>,
    /// When its row last changed in a way that people care about.
    pub updated_at: Option<UtcMs>,
    /// When somebody or something last used it.
    pub last_activity_at: Option<UtcMs>,
    /// What last used it.
    pub last_activity_kind: Option<ActivityKind>,
    /// Who claimed the right to drive it.
    pub driver: Option<String>,
    /// When that claim was made or renewed.
    pub driver_at: Option<UtcMs>,
    /// Until when it is kept by request.
    pub keep_until: Option<UtcMs>,
    /// Why it is kept.
    pub keep_reason: Option<String>,
    /// Its own idle window; none means the rule's.
    pub idle_after_ms: Option<Ms>,
    /// Not looked at by the idle part before this time (back-off after a refusal or a failed stop).
    pub next_check_at: Option<UtcMs>,
    /// When it was closed.
    pub ended_at: Option<UtcMs>,
    /// Why it was closed: a word of [`crate::verdict::Verdict`], or the runner's own.
    pub end_reason: Option<String>,
}

impl ActivityKind {
    /// Returns whether such a use is certainly not that of a run in the session, nor its engine's: a run may send messages
    /// and poll captures itself.
    #[must_use]
    pub fn is_shared(self) -> bool {
        match self {
            Self::Copilot | Self::Timeline | Self::Keep | Self::Start => true,
            Self::Capture | Self::Message | Self::Run | Self::Engine => false,
        }
    }
}

impl Session {
    /// Returns when the session was last used as far as the row tells: `last_activity_at`, else `updated_at`, else
    /// `started_at`; none when the row has none of them.
    #[must_use]
    pub fn last_used(&self) -> Option<UtcMs> {
        self.last_activity_at.or(self.updated_at).or(self.started_at)
    }

    /// Returns whether the row is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.status != Status::Ended
    }
}

/// The row of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Run {
    /// Its id.
    pub id: Id,
    /// The session that it works in.
    pub session_id: Id,
    /// How it stands.
    pub status: RunStatus,
    /// Whether it opened that session itself.
    pub opened_session: bool,
    /// When it began.
    pub started_at: UtcMs,
    /// When it last said that it goes on.
    pub heartbeat_at: Option<UtcMs>,
    /// When it finished.
    pub finished_at: Option<UtcMs>,
    /// Since when it has been called stale; none when it never was, or said afterwards that it goes on.
    pub stale_at: Option<UtcMs>,
    /// What it reported when it finished.
    pub result: Option<String>,
}

/// The row of an enrolled runner: where it is, and what is remembered of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Runner {
    /// The name it was enrolled under.
    pub id: Id,
    /// Its base URL, `http://host:port`.
    pub url: String,
    /// The file that holds its secret; the secret itself is in no table.
    pub token_file: Option<String>,
    /// When it was enrolled.
    pub created_at: UtcMs,
    /// When a connection to it last succeeded, whatever it answered; none when never.
    pub last_seen_at: Option<UtcMs>,
    /// The highest epoch it has shown.
    pub epoch: Option<i64>,
    /// The highest protocol version it has ever said; none for a foreign runner.
    pub protocol: Option<i64>,
    /// The identity it shows in its answers, which may differ from the name it was enrolled under only before the first answer.
    pub identity: Option<String>,
    /// The state folder it runs on, as it says itself; none for a runner that has never said.
    pub state_id: Option<String>,
    /// Never stop an engine on it without a condition that it checks itself.
    pub require_conditional_stop: bool,
}

#[cfg(test)]
mod tests {
    use super::Id;

    #[test]
    fn ids_have_one_shape() {
        for good in ["a", "01J-x_Y", &"x".repeat(64)] {
            assert!(good.parse::<Id>().is_ok(), "{good}");
        }
        for bad in ["", "a b", "a/b", "é", "a\n", &"x".repeat(65)] {
            assert!(bad.parse::<Id>().is_err(), "{bad}");
        }
    }
}
