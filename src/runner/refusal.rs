//! Why a request was not granted, before it is known who answers.

use axum::http::StatusCode;

use crate::protocol::{Failure, FailureOutcome, Origin};
use crate::session::Id;

/// A request that was not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The status of the answer.
    pub(crate) status: StatusCode,
    /// What it says.
    pub(crate) outcome: FailureOutcome,
    /// One sentence for a person.
    pub(crate) message: String,
    /// The session asked about, and which start of it.
    pub(crate) about: Option<Box<(Id, i64)>>,
    /// See [`Failure::highest_generation`].
    pub(crate) highest_generation: Option<i64>,
    /// See [`Failure::reason`].
    pub(crate) reason: Option<String>,
    /// See [`Failure::engines`].
    pub(crate) engines: Vec<String>,
}

impl Refusal {
    /// Makes a refusal that is about no session in particular.
    #[must_use]
    pub(crate) fn new(status: StatusCode, outcome: FailureOutcome, message: impl Into<String>) -> Self {
        let (about, highest_generation, reason) = (None, None, None);
        Self { status, outcome, message: message.into(), about, highest_generation, reason, engines: Vec::new() }
    }

    /// The request makes no sense.
    #[must_use]
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, FailureOutcome::BadRequest, message)
    }

    /// A cursor lies where no output of the engine ever was.
    #[must_use]
    pub(crate) fn unsatisfiable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::RANGE_NOT_SATISFIABLE, FailureOutcome::BadRequest, message)
    }

    /// Something on the runner's side failed.
    #[must_use]
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, FailureOutcome::Internal, message)
    }

    /// The runner does not know its engines yet, or is leaving.
    #[must_use]
    pub(crate) fn not_ready(message: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, FailureOutcome::NotReady, message)
    }

    /// It could not be done in time; it may have been begun.
    #[must_use]
    pub(crate) fn busy(id: &Id, generation: i64, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, FailureOutcome::Busy, message).about(id, generation)
    }

    /// There is no such engine, and no record of one.
    #[must_use]
    pub(crate) fn not_tracked(id: &Id, generation: i64) -> Self {
        let message = format!("this runner has no engine for the session {id}");
        Self::new(StatusCode::NOT_FOUND, FailureOutcome::NotTracked, message).about(id, generation)
    }

    /// The engine is gone, or on its way out.
    #[must_use]
    pub(crate) fn ended(id: &Id, generation: i64, reason: &str) -> Self {
        let message = format!("the engine of the session {id} has ended ({reason})");
        let refusal = Self::new(StatusCode::GONE, FailureOutcome::Ended, message).about(id, generation);
        Self { reason: Some(reason.to_owned()), ..refusal }
    }

    /// Another start of the session is known.
    #[must_use]
    pub(crate) fn generation(id: &Id, generation: i64, highest: i64) -> Self {
        let message = format!("the session {id} is known up to its generation {highest}, and {generation} was named");
        let refusal = Self::new(StatusCode::CONFLICT, FailureOutcome::Generation, message).about(id, generation);
        Self { highest_generation: Some(highest), ..refusal }
    }

    /// Says which session it is about.
    #[must_use]
    pub(crate) fn about(self, id: &Id, generation: i64) -> Self {
        Self { about: Some(Box::new((id.clone(), generation))), ..self }
    }

    /// Completes it with who answers.
    #[must_use]
    pub(crate) fn into_failure(self, origin: Origin) -> Failure {
        let (session_id, generation) = self.about.map(|about| *about).unzip();
        Failure {
            origin,
            session_id,
            generation,
            outcome: self.outcome.to_string(),
            message: self.message,
            highest_generation: self.highest_generation,
            reason: self.reason,
            engines: self.engines,
        }
    }
}
