//! Timeline entries as plain data: what happened to a session, for people, with the evidence for it.

use serde::{Deserialize, Serialize};

use crate::session::{Id, Status};
use crate::time::UtcMs;
use crate::words::words;

words! {
    /// What kind of event an entry tells of.
    EntryKind {
        /// An engine was started.
        Started = "started",
        /// The row was closed.
        Ended = "ended",
        /// An engine of a row that had ended or moved on was stopped.
        Stopped = "stopped",
        /// Somebody asked to keep the session.
        Kept = "kept",
        /// The runner refused to stop the engine because it is in use.
        Refused = "refused",
        /// A closed row was opened again, since its engine turned out to be in use.
        Reopened = "reopened",
        /// It was moved to another runner.
        Relocated = "relocated",
        /// Something went wrong, or will happen soon.
        Warned = "warned",
        /// A run stopped sending heartbeats.
        RunStale = "run_stale",
        /// A run began in the session.
        RunStarted = "run_started",
        /// A run in the session finished.
        RunFinished = "run_finished",
        /// The session came in from another system.
        Imported = "imported",
    }
}

/// An entry about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// The session it is about.
    pub session_id: Id,
    /// Which start of the session.
    pub generation: i64,
    /// When it happened.
    pub at: UtcMs,
    /// What happened.
    pub kind: EntryKind,
    /// Who did it: `sweep`, `runner`, a person's name.
    pub actor: String,
    /// Why, a word of [`crate::verdict::Verdict`] where one fits.
    pub reason: Option<String>,
    /// One sentence a person understands.
    pub message: String,
    /// The evidence, a JSON object.
    pub evidence: serde_json::Value,
    /// What may be written only once per session; none when it may repeat.
    pub once: Option<String>,
    /// Whether it rests on a runner's word that the engine of this generation is gone.
    pub engine_gone: bool,
}

/// An entry as it stands in the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Entry {
    /// Its id.
    pub id: Id,
    /// The session it is about.
    pub session_id: Id,
    /// Which start of the session.
    pub generation: i64,
    /// When it happened.
    pub at: UtcMs,
    /// What happened.
    pub kind: EntryKind,
    /// Who did it.
    pub actor: String,
    /// Why.
    pub reason: Option<String>,
    /// One sentence a person understands.
    pub message: String,
    /// The evidence, a JSON object.
    #[schema(value_type = Object)]
    pub evidence: serde_json::Value,
}

/// An entry as whoever waits for it gets it: its place in the order of commits, and the session it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Event {
    /// Its place: 1, 2, …, in the order in which entries were committed; never used again.
    pub seq: i64,
    /// The session, as its row stands when this is read.
    pub session: EventSession,
    /// What happened.
    pub entry: Entry,
}

/// What an event tells of its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EventSession {
    /// Its id.
    pub id: Id,
    /// The folder or repository that it works in.
    pub repo: String,
    /// The engine's name.
    pub engine: String,
    /// The runner that holds, or held, its engine.
    pub runner_id: Id,
    /// Whose it is; none only in legacy rows.
    pub owner_id: Option<String>,
    /// Where it stands in its life.
    pub status: Status,
    /// Which start of the session its engine belongs to.
    pub generation: i64,
}

words! {
    /// How a delivery of an event to a webhook stands.
    DeliveryStatus {
        /// It is to be sent, again where attempts failed.
        Pending = "pending",
        /// The receiver took it.
        Delivered = "delivered",
        /// It was tried for too long.
        GivenUp = "given_up",
    }
}

/// The delivery of one event to one webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Delivery {
    /// Its id, the same in every attempt; receivers tell repetitions by it.
    pub id: Id,
    /// The webhook.
    pub webhook: Id,
    /// The event's place in the order of commits.
    pub seq: i64,
    /// The session that the event is about.
    pub session_id: Id,
    /// How it stands.
    pub status: DeliveryStatus,
    /// How many attempts were begun.
    pub attempts: i64,
    /// When the next attempt may be made, while it is pending.
    pub next_attempt_at: UtcMs,
    /// When it was queued.
    pub created_at: UtcMs,
    /// When it was delivered or given up.
    pub finished_at: Option<UtcMs>,
    /// What went wrong in the last attempt.
    pub last_error: Option<String>,
}
