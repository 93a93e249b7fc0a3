//! What a runner's answers may be taken for.

use crate::protocol::tracked::{Reading, TrackedSet};
use crate::protocol::{Because, Ended, FailureOutcome, TrackedSession};
use crate::time::Ms;

/// Why there is no answer that may be believed. Each reason is one sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// No connection could be made: refused, no route, no such name, connect timeout. Only this may mean that the machine
    /// is gone; faults of this side (no free port, no open file) are [`NoAnswer::Unanswered`].
    #[error("{0}")]
    Unconnected(String),
    /// A connection was made, or this side failed, and no whole answer came in time.
    #[error("{0}")]
    Unanswered(String),
    /// The runner refused the secret, or there is none to show.
    #[error("{0}")]
    Unauthorised(String),
    /// Another runner answered, or an older state of this one.
    #[error("{0}")]
    Unknown(String),
    /// Something answered, but not as a runner does.
    #[error("{0}")]
    Unrecognised(String),
}

/// What came of asking a runner for its tracked set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// The runner answered with a tracked set that may be believed.
    Live(TrackedSet),
    /// The runner itself answered that it is not ready yet: it knows nothing for certain.
    NotReady(String),
    /// See [`NoAnswer::Unrecognised`].
    Unrecognised(String),
    /// See [`NoAnswer::Unauthorised`].
    Unauthorised(String),
    /// See [`NoAnswer::Unknown`].
    Unknown(String),
    /// See [`NoAnswer::Unanswered`].
    Unanswered(String),
    /// See [`NoAnswer::Unconnected`].
    Unconnected(String),
}

impl Observation {
    /// Returns why there is no tracked set; none when there is one.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Live(_) => None,
            Self::NotReady(why)
            | Self::Unrecognised(why)
            | Self::Unauthorised(why)
            | Self::Unknown(why)
            | Self::Unanswered(why)
            | Self::Unconnected(why) => Some(why),
        }
    }

    /// Returns whether a connection may have been made, whatever came of it. A fault of this side, such as a secret that
    /// cannot be read, counts as one: nothing is known of the machine, so it must not come closer to being called gone.
    #[must_use]
    pub fn reached(&self) -> bool {
        !matches!(self, Self::Unconnected(_))
    }
}

impl From<Reading> for Observation {
    fn from(reading: Reading) -> Self {
        match reading {
            Reading::Tracked(set) => Self::Live(set),
            Reading::Unknown(why) => Self::Unknown(why),
            Reading::Unrecognised(why) => Self::Unrecognised(why),
        }
    }
}

impl From<NoAnswer> for Observation {
    fn from(no_answer: NoAnswer) -> Self {
        match no_answer {
            NoAnswer::Unconnected(why) => Self::Unconnected(why),
            NoAnswer::Unanswered(why) => Self::Unanswered(why),
            NoAnswer::Unauthorised(why) => Self::Unauthorised(why),
            NoAnswer::Unknown(why) => Self::Unknown(why),
            NoAnswer::Unrecognised(why) => Self::Unrecognised(why),
        }
    }
}

/// What came of asking a runner to stop an engine. Only the first three may close a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopAnswer {
    /// The engine is gone, because of this request.
    Stopped(Box<Ended>),
    /// The engine had ended before; the record says why.
    AlreadyStopped(Box<Ended>),
    /// A runner that knows all its engines has none for this session.
    NotTracked,
    /// The runner keeps the engine.
    Refused {
        /// Why; none where it said so in no word of this version, or is a foreign runner.
        because: Option<Because>,
        /// For how long the engine has been silent.
        idle_ms: Option<Ms>,
        /// The highest generation that the runner knows to have ended.
        highest_generation: Option<i64>,
    },
    /// The engine is being stopped, and not gone yet.
    Accepted,
    /// An answer that says nothing certain, or no connection: the engine may well live. One sentence.
    Failed(String),
    /// Connected, and no answer in time: the engine may well live. One sentence.
    NoAnswer(String),
}

impl From<NoAnswer> for StopAnswer {
    fn from(no_answer: NoAnswer) -> Self {
        match no_answer {
            NoAnswer::Unanswered(why) => Self::NoAnswer(why),
            NoAnswer::Unconnected(why)
            | NoAnswer::Unauthorised(why)
            | NoAnswer::Unknown(why)
            | NoAnswer::Unrecognised(why) => Self::Failed(why),
        }
    }
}

/// What a runner said to a touch, message, start or forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionReply {
    /// Done; the engine as it stands, where the runner says it.
    Done(Option<Box<TrackedSession>>),
    /// The engine is gone or being stopped.
    Ended {
        /// Why, in the runner's word.
        reason: String,
    },
    /// A runner that speaks the protocol, and knows all its engines, has none for this session.
    NotTracked,
    /// The engine belongs to another start of the session, or the one asked for is not above the last ended one.
    Generation {
        /// The highest generation that the runner knows of.
        highest: Option<i64>,
    },
    /// Any other refusal: `unknown_engine`, `start_failed`, `not_ready`, `busy`, …
    Refused {
        /// What it says; none for a word that this version does not know.
        outcome: Option<FailureOutcome>,
        /// Its sentence for a person.
        message: String,
    },
    /// A foreign runner that does not have this route.
    Unsupported,
}

/// What a runner said to a question about an engine's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputReply<T> {
    /// This.
    There(T),
    /// The engine is gone or being stopped.
    Ended {
        /// Why, in the runner's word.
        reason: String,
    },
    /// A runner that speaks the protocol, and knows all its engines, has none for this session and remembers none.
    NotTracked,
    /// No line ends at the cursor; one sentence. It may be from another engine.
    BadCursor(String),
    /// Any other refusal: `not_ready`, `busy`, …
    Refused {
        /// What it says; none for a word that this version does not know.
        outcome: Option<FailureOutcome>,
        /// Its sentence for a person.
        message: String,
    },
    /// A runner that does not have this route.
    Unsupported,
}
