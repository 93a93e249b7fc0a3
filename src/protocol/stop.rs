//! `POST /coding/end`: stopping an engine on a condition that the runner itself checks.

use serde::{Deserialize, Serialize};

use crate::protocol::{Ended, Origin};
use crate::session::Id;
use crate::time::{HOUR, Ms};
use crate::words::words;

words! {
    /// How a stop is meant.
    EndMode {
        /// Only when the condition holds, decided by the runner under its own lock.
        IfIdle = "if_idle",
        /// A person's explicit wish: without a condition.
        Force = "force",
    }
}

words! {
    /// Why a runner refused a stop.
    Because {
        /// A turn is running.
        Generating = "generating",
        /// A background task is running.
        BackgroundTasks = "background_tasks",
        /// The engine waits for a person's answer, not yet for long enough.
        AwaitingInput = "awaiting_input",
        /// The engine will wake up by itself.
        PendingWake = "pending_wake",
        /// Something used it within the window.
        Active = "active",
        /// The engine belongs to another start of the session.
        Generation = "generation",
        /// The stop rests on an answer that is too old, or of another epoch.
        Stale = "stale",
    }
}

/// For how long what must have been silent, before an engine may be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopLimits {
    /// Nothing used the engine for this long.
    pub quiet_for_ms: Ms,
    /// While a person's answer is awaited: the question is this old.
    pub awaiting_for_ms: Ms,
    /// A turn that emitted nothing for this long does not protect; nor does a wake-up overdue by it.
    pub stalled_for_ms: Ms,
    /// A background task silent for this long does not protect; nor does a wake-up due later than this.
    pub background_for_ms: Ms,
}

impl StopLimits {
    /// The longest limit that a runner accepts: ten years.
    pub const MOST: Ms = 10 * 365 * 24 * HOUR;

    /// Makes the limits of a stop that nobody decided by the session's own ones: only an engine that does nothing at all, and
    /// has been silent for `quiet_for_ms`.
    ///
    /// Every other limit is as long as it can be, so that no length of silence lets a turn, a background task, a wake-up, an
    /// open question or a state that cannot be told be taken for nothing.
    #[must_use]
    pub fn only_if_doing_nothing(quiet_for_ms: Ms) -> Self {
        Self { quiet_for_ms, awaiting_for_ms: Self::MOST, stalled_for_ms: Self::MOST, background_for_ms: Self::MOST }
    }
}

/// The body of `POST /coding/end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndRequest {
    /// The session whose engine is to be stopped.
    pub session_id: Id,
    /// Which start of the session is meant.
    pub generation: i64,
    /// On a condition, or a person's wish.
    pub mode: EndMode,
    /// The condition; required for `if_idle`.
    #[serde(default)]
    pub limits: Option<StopLimits>,
    /// The stamp of the answer that the decision rests on; required for `if_idle`.
    #[serde(default)]
    pub stamp: Option<String>,
    /// Why, a word of [`crate::verdict::Verdict`].
    pub reason: String,
    /// The sweep that asks.
    #[serde(default)]
    pub sweep_id: Option<Id>,
    /// On whose behalf, when a person ends it; sweeps speak for the control plane and send none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
}

words! {
    /// What came of `POST /coding/end`.
    EndOutcome {
        /// 200: the engine was stopped, and nothing of it is left.
        Stopped = "stopped",
        /// 200: it had ended before; the stored reason is told.
        AlreadyStopped = "already_stopped",
        /// 404: the runner has no engine and no end record for the session.
        NotTracked = "not_tracked",
        /// 409: it is in use, or another one is there.
        Refused = "refused",
        /// 202: it is being stopped, and not gone yet.
        Accepted = "accepted",
    }
}

/// The answer to `POST /coding/end`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndAnswer {
    /// Who answers.
    #[serde(flatten)]
    pub origin: Origin,
    /// The session asked about.
    pub session_id: Id,
    /// Which start of the session the answer speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// What came of it.
    pub outcome: EndOutcome,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<Because>,
    /// For how long the engine has been silent, with a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<Ms>,
    /// The highest generation that the runner knows to have ended, with a refusal because of the generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_generation: Option<i64>,
    /// The record of the end, with `stopped` and `already_stopped`; its fields stand in the answer itself.
    #[serde(flatten)]
    pub ended: Option<EndedPart>,
}

/// The fields of [`Ended`] that an answer to `end` repeats beside its own ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedPart {
    /// See [`Ended::reason`].
    pub reason: String,
    /// See [`Ended::sweep_id`].
    #[serde(default)]
    pub sweep_id: Option<Id>,
    /// See [`Ended::ended_ago_ms`].
    #[serde(default)]
    pub ended_ago_ms: Option<Ms>,
    /// See [`Ended::exit`].
    #[serde(default)]
    pub exit: Option<crate::protocol::EngineExit>,
    /// See [`Ended::stages`].
    #[serde(default)]
    pub stages: Vec<crate::protocol::StopStage>,
    /// See [`Ended::freed_bytes`].
    #[serde(default)]
    pub freed_bytes: Option<i64>,
    /// See [`Ended::not_freed`].
    #[serde(default)]
    pub not_freed: Vec<String>,
    /// See [`Ended::resume`].
    #[serde(default)]
    pub resume: Option<crate::protocol::ResumeCommand>,
    /// See [`Ended::engine_session_id`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_session_id: Option<String>,
    /// See [`Ended::containment`].
    #[serde(default)]
    pub containment: Option<String>,
}

impl EndedPart {
    /// Joins it with the ids of the answer it came in.
    #[must_use]
    pub fn with_ids(self, session_id: Id, generation: i64) -> Ended {
        Ended {
            session_id,
            generation,
            reason: self.reason,
            sweep_id: self.sweep_id,
            ended_ago_ms: self.ended_ago_ms,
            exit: self.exit,
            stages: self.stages,
            freed_bytes: self.freed_bytes,
            not_freed: self.not_freed,
            resume: self.resume,
            engine_session_id: self.engine_session_id,
            detail: None,
            containment: self.containment,
        }
    }
}

impl From<Ended> for EndedPart {
    fn from(ended: Ended) -> Self {
        Self {
            reason: ended.reason,
            sweep_id: ended.sweep_id,
            ended_ago_ms: ended.ended_ago_ms,
            exit: ended.exit,
            stages: ended.stages,
            freed_bytes: ended.freed_bytes,
            not_freed: ended.not_freed,
            resume: ended.resume,
            engine_session_id: ended.engine_session_id,
            containment: ended.containment,
        }
    }
}
