//! What the runner must know about a kind of engine, behind one small interface: one file per kind.

mod lines;

pub(crate) use lines::Lines;

use crate::protocol::ResumeCommand;
use crate::runner::settings::EngineSpec;
use crate::time::Ms;

/// What one line of an engine's output says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The engine's own id of the conversation.
    Session(String),
    /// A turn began.
    TurnStarted,
    /// The turn ended.
    TurnEnded,
    /// A background task began.
    BackgroundStarted(String),
    /// A background task ended, well or not.
    BackgroundEnded(String),
    /// The engine asks a person something and waits.
    AwaitingInput,
    /// The question is answered.
    InputReceived,
    /// The engine will wake up by itself in so many milliseconds.
    WakeScheduled(Ms),
    /// It will not, after all.
    WakeCleared,
    /// A sign of life that is no work.
    Status,
    /// Anything else, be it a part of a line or standard error, with the background task that it belongs to where it says so.
    Output {
        /// The task.
        task: Option<String>,
    },
}

/// How one kind of engine speaks.
pub(crate) trait Adapter: Send + Sync {
    /// Reads one line of output; what it does not know is output.
    fn parse(&self, line: &[u8]) -> Event;

    /// Writes a person's message as the bytes that the engine reads.
    fn message(&self, text: &str) -> Vec<u8>;

    /// Returns how a person takes the conversation up again, where that can be told.
    fn resume(&self, spec: &EngineSpec, engine_session_id: Option<&str>, cwd: &str) -> Option<ResumeCommand>;
}
