//! Reading a runner's answer to `GET /coding/sessions`: the tracked set, or why it is none.

use crate::protocol::{Ended, TrackedSession};

/// What the answer must fit to be believed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expected {
    /// The random text that the question carried.
    pub ask: String,
    /// The runner that should answer; none accepts any.
    pub runner_id: Option<String>,
    /// The highest epoch it has shown.
    pub epoch: Option<i64>,
    /// It has spoken the protocol before, so a bare answer is none.
    pub speaks_protocol: bool,
}

/// A tracked set that may be believed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrackedSet {
    /// The protocol version, if the runner said one; none is a foreign runner.
    pub protocol: Option<i64>,
    /// The identity it showed.
    pub runner_id: Option<String>,
    /// The epoch it showed.
    pub epoch: Option<i64>,
    /// What a stop must copy to show how fresh its reason is.
    pub stamp: Option<String>,
    /// The engines that it holds. Ids may be listed twice.
    pub tracked: Vec<TrackedSession>,
    /// The engines that it remembers as gone.
    pub ended: Vec<Ended>,
}

/// How an answer reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// A tracked set; an empty one is a real answer.
    Tracked(TrackedSet),
    /// Another runner, or an older state of this one, answered. A person decides.
    Unknown(String),
    /// Anything else: nothing may be concluded from it.
    Unrecognised(String),
}
