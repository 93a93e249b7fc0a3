//! What the runner must know about a kind of engine, behind one small interface: one file per kind.
//!
//! An adapter is pure: it is told what the engine wrote and what is wanted of it, and returns what that means and what
//! is to be written to the engine's input. It reads no clock and does no I/O. What it remembers can be saved and taken
//! up again by a later life of the runner, which then reads the same lines from the same point: the same memory and the
//! same lines must give the same answers, byte for byte.

mod acp;
mod claude;
mod codex;
mod lines;
mod opencode;
#[cfg(test)]
mod playback;
#[cfg(test)]
mod recording;

pub(crate) use acp::Acp;
pub(crate) use claude::Claude;
pub(crate) use codex::Codex;
pub(crate) use lines::Lines;
pub(crate) use opencode::Opencode;

use std::collections::BTreeMap;

pub use crate::session::AdapterKind;

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

/// What came of something: what it says about the engine, in order, and what is to be written to its input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Exchange {
    /// What it says.
    pub(crate) events: Vec<Event>,
    /// Texts for its input, each whole lines with their ends.
    pub(crate) write: Vec<String>,
}

/// What a conversation is opened with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Opening {
    /// The folder that the engine runs in.
    pub(crate) cwd: String,
    /// The engine's own id of the conversation that is to be taken up again; none begins a fresh one.
    pub(crate) engine_session_id: Option<String>,
}

/// What a line adds to the text that an engine writes in a turn. Parts have names; the one without a name needs no
/// beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    /// A part of this name begins; what is told of named parts that never began is no text of the engine's.
    Begins(String),
    /// More of a part.
    More {
        /// Its name.
        part: String,
        /// What is added.
        text: String,
    },
    /// All of a part, whatever was told of it before.
    Whole {
        /// Its name.
        part: String,
        /// What it says.
        text: String,
    },
}

impl Written {
    /// All of a part that has no name.
    pub(crate) fn whole(text: String) -> Self {
        Self::Whole { part: String::new(), text }
    }
}

/// How a turn is interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// By writing this; nothing when no turn is known that could be.
    Write(Vec<String>),
    /// By SIGINT to the engine's own process.
    Signal,
}

/// Stands for Sexton's own program at the beginning of a command.
pub(crate) const OWN_PROGRAM: &str = "{sexton}";

/// How one kind of engine speaks.
pub(crate) trait Adapter: Send {
    /// Returns the program and its arguments; a conversation to be taken up again may change them.
    fn command(&self, spec: &EngineSpec, opening: &Opening) -> Vec<String>;

    /// Returns the variables that it gets from the runner's environment besides those that every engine gets; a name
    /// that ends with `*` stands for all that begin so.
    fn passes_on(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the variables that it needs; those of the configuration and the start come after them.
    fn env(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Says what is to be written to a fresh engine before anything else.
    fn greet(&mut self, _opening: &Opening) -> Exchange {
        Exchange::default()
    }

    /// Returns whether messages can be written to it. One that greets is ready once the engine has answered.
    fn is_ready(&self) -> bool {
        true
    }

    /// Returns why it will never be ready, as a clause that follows "the engine of …:"; none while it is or may be.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Reads one line of output, without its end; what it does not know is output.
    fn read(&mut self, line: &[u8]) -> Exchange;

    /// Returns what a line adds to the text that the engine itself writes; none for a line that is none of it.
    fn written(&self, line: &[u8]) -> Option<Written>;

    /// Writes a person's message. Called only when it is ready; the events are what the message means once the engine
    /// has it, as a turn that it begins.
    fn message(&mut self, text: &str) -> Exchange;

    /// Says how the running turn is interrupted, without ending the conversation.
    fn interrupt(&mut self) -> Interrupt;

    /// Writes what ends each background task that is known.
    fn stop_tasks(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Writes what begins a fresh conversation in the same engine; none when that is not possible.
    fn clear(&mut self) -> Option<Exchange> {
        None
    }

    /// Returns whether it can tell at all what background tasks there are; one that never can says nothing about them.
    fn tells_tasks(&self) -> bool {
        true
    }

    /// Writes what makes the engine tell its state, where it does so only when asked; called every few seconds.
    fn ask(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Returns what it remembers, as JSON of at most some kilobytes.
    fn save(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Takes up what an earlier life saved; what it cannot read it leaves as it is.
    fn restore(&mut self, _saved: &serde_json::Value) {}

    /// Returns whether an engine that is started with the id of a conversation takes it up, as far as that is known before.
    fn takes_up(&self, _spec: &EngineSpec) -> bool {
        true
    }

    /// Returns how a person takes the conversation up again, where that can be told.
    fn resume(&self, spec: &EngineSpec, engine_session_id: Option<&str>, cwd: &str) -> Option<ResumeCommand>;
}

/// Makes the adapter of a kind.
#[must_use]
pub(crate) fn adapter(kind: AdapterKind) -> Box<dyn Adapter> {
    match kind {
        AdapterKind::Lines => Box::new(Lines),
        AdapterKind::Claude => Box::new(Claude::default()),
        AdapterKind::Codex => Box::new(Codex::default()),
        AdapterKind::Opencode => Box::new(Opencode::default()),
        AdapterKind::Acp => Box::new(Acp::default()),
    }
}

/// How many characters of an engine's own words are repeated in a trouble.
const REPEATED_MOST: usize = 300;

/// Returns why an engine will never be ready, with what it says itself about it: the `message` of its error.
#[must_use]
pub(crate) fn unready(what: &str, error: &serde_json::Value) -> String {
    let printable = |text: &str| text.chars().filter(|one| !one.is_control()).take(REPEATED_MOST).collect();
    let said: Option<String> = error["message"].as_str().map(printable);
    said.map_or_else(|| what.to_owned(), |said| format!("{what}: {said}"))
}

/// Returns the resume command of the configuration with the id put in; none without one or without an id.
#[must_use]
pub(crate) fn configured_resume(spec: &EngineSpec, id: Option<&str>, cwd: &str) -> Option<ResumeCommand> {
    let id = id.filter(|_| !spec.resume.is_empty())?;
    let command = spec.resume.iter().map(|part| part.replace("{engine_session_id}", id)).collect();
    Some(ResumeCommand { command, cwd: cwd.to_owned() })
}
