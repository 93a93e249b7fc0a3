//! Why a runner did not grant a request.

use serde::{Deserialize, Serialize};

use crate::protocol::Origin;
use crate::session::Id;
use crate::words::words;

words! {
    /// What a refusal says.
    FailureOutcome {
        /// 410: the engine is gone or being stopped; the reason is told.
        Ended = "ended",
        /// 404: the runner knows no such session, or conversation, of this owner.
        NotTracked = "not_tracked",
        /// 409: another start of the session is known.
        Generation = "generation",
        /// 400: the runner has no such engine; nothing was begun.
        UnknownEngine = "unknown_engine",
        /// 422: the engine did not start, and nothing of it is left.
        StartFailed = "start_failed",
        /// 409: another engine holds the conversation; nothing was begun.
        InUse = "in_use",
        /// 409: this kind of engine cannot do it.
        Unsupported = "unsupported",
        /// 4xx: the request makes no sense; nothing was begun.
        BadRequest = "bad_request",
        /// 401: the secret is missing or wrong; nothing was begun.
        Unauthorised = "unauthorised",
        /// 503: the runner does not know its engines yet, or is leaving; nothing was begun.
        NotReady = "not_ready",
        /// 503: it was not done in time. It may have been begun: of a start, an engine may be left.
        Busy = "busy",
        /// 500: something on the runner's side failed, and nobody knows how far it got.
        Internal = "internal",
    }
}

/// Any refusal of a runner but that of `end`: 4xx and 5xx, and 410 with the reason of the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Who answers.
    #[serde(flatten)]
    pub origin: Origin,
    /// The session asked about, when the request named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<Id>,
    /// Which start of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// A word of [`FailureOutcome`], or one that only another version knows.
    pub outcome: String,
    /// One sentence for a person.
    pub message: String,
    /// With `generation`: the highest generation the runner knows of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_generation: Option<i64>,
    /// With `ended`: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// With `unknown_engine`: those it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<String>,
}

impl Failure {
    /// Returns what the refusal says; none for a word that this version does not know, which says nothing certain.
    #[must_use]
    pub fn known_outcome(&self) -> Option<FailureOutcome> {
        self.outcome.parse().ok()
    }
}
