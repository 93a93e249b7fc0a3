//! The wire types of `/coding`, version 1, shared by both sides: the worker that asks and the runner that answers.
//!
//! HTTP and JSON, `Authorization: Bearer`, one secret per runner. Ages cross the wire as durations, never as times,
//! since two machines never agree on the time. Every answer carries [`Origin`].

mod cursor;
mod ended;
mod engine_state;
mod failure;
mod output;
mod stop;
pub mod tracked;
pub(crate) mod untrusted;
mod verbs;

pub use cursor::Cursor;
pub use ended::{Ended, EngineExit, ResumeCommand, StopStage};
pub use engine_state::{EngineState, Told, TrackedSession};
pub use failure::{Failure, FailureOutcome};
pub use output::{Gap, HistoryAnswer, HistoryRequest, LiveAnswer, LiveRequest, OutputLine};
pub use stop::{Because, EndAnswer, EndMode, EndOutcome, EndRequest, StopLimits};
pub use verbs::{
    EventsRequest, FindAnswer, FindRequest, ForgetRequest, Health, ListRequest, MessageRequest, Origin, SessionAnswer,
    SessionRequest, StartRequest, TouchOutcome, TouchRequest, TurnOutcome,
};

/// The version of the protocol that this build speaks.
pub const PROTOCOL: i64 = 1;

/// The variables that a runner gives every engine, so that what runs inside one can tell where it is.
pub mod variable {
    /// The session's id.
    pub const SESSION_ID: &str = "SEXTON_SESSION_ID";
    /// The runner's id, for people and programs.
    pub const RUNNER_ID: &str = "SEXTON_RUNNER_ID";
    /// The mark of the runner's state folder.
    pub const RUNNER_MARK: &str = "SEXTON_RUNNER_MARK";
    /// A token of the worker's API that can only keep this session; it comes with the start.
    pub const TOKEN: &str = "SEXTON_TOKEN";
    /// Where the worker's API is; it comes with the start.
    pub const URL: &str = "SEXTON_URL";
    /// All of them.
    pub const ALL: [&str; 5] = [SESSION_ID, RUNNER_ID, RUNNER_MARK, TOKEN, URL];
}

/// Paths of the routes, so that client and server cannot disagree.
pub mod path {
    /// `GET`: is it alive, is it ready, which engines has it.
    pub const HEALTH: &str = "/coding/health";
    /// `GET ?ask=RANDOM`: the tracked set and the end records.
    pub const SESSIONS: &str = "/coding/sessions";
    /// `POST`: start an engine.
    pub const START: &str = "/coding/start";
    /// `POST`: give an engine a message.
    pub const MESSAGES: &str = "/coding/messages";
    /// `POST`: somebody uses the session.
    pub const TOUCH: &str = "/coding/touch";
    /// `POST`: the worker has taken note of an end record.
    pub const FORGET: &str = "/coding/forget";
    /// `POST`: stop an engine, on a condition.
    pub const END: &str = "/coding/end";
    /// The running turn is interrupted.
    pub const INTERRUPT: &str = "/coding/interrupt";
    /// A fresh conversation is begun in the same engine.
    pub const CLEAR: &str = "/coding/clear";
    /// What an engine says, from any point on.
    pub const EVENTS: &str = "/coding/events";
    /// The half-written text of the turn that runs, and where its events go on.
    pub const LIVE: &str = "/coding/live";
    /// A page of what an engine has said.
    pub const HISTORY: &str = "/coding/history";
    /// The session of an engine's own id.
    pub const FIND: &str = "/coding/find";
}
