//! What a runner says about one engine.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::session::Id;
use crate::time::Ms;

/// A fact that a runner may not send, may say it does not know, or may state.
///
/// A field that is not sent says nothing at all, so a plain runner is served; an explicit `null`, `"unknown"` or a value
/// of another type is an unknown state, and unknown keeps the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Told<T> {
    /// The field was not sent.
    #[default]
    Silent,
    /// The runner says that it cannot tell now.
    Unknown,
    /// The runner says this.
    Is(T),
}

impl<T: Copy> Told<T> {
    /// Returns whether the field was not sent.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Silent)
    }

    /// Returns the stated value, if one was stated.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Silent | Self::Unknown => None,
        }
    }
}

impl<T: Serialize> Serialize for Told<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Is(value) => value.serialize(serializer),
            Self::Silent | Self::Unknown => serializer.serialize_none(),
        }
    }
}

impl<'de, T: serde::de::DeserializeOwned> Deserialize<'de> for Told<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Ok(serde_json::from_value(value).map_or(Self::Unknown, Self::Is))
    }
}

/// What an engine is doing, and for how long it has been silent. All ages are in milliseconds on a clock that stands
/// still while the runner's machine sleeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EngineState {
    /// A turn is running.
    #[serde(default, skip_serializing_if = "Told::is_silent")]
    pub generating: Told<bool>,
    /// How many background tasks have started and not settled.
    #[serde(default, skip_serializing_if = "Told::is_silent")]
    pub background_tasks: Told<u32>,
    /// The engine asked a person something and waits for the answer.
    #[serde(default, skip_serializing_if = "Told::is_silent")]
    pub awaiting_input: Told<bool>,
    /// The turn has been silent for so long that the runner calls it stalled.
    #[serde(default, skip_serializing_if = "Told::is_silent")]
    pub stalled: Told<bool>,
    /// In how long the engine will wake up by itself; negative when that is overdue, none when it has no such plan.
    #[serde(default)]
    pub next_wake_in_ms: Option<Ms>,
    /// How long nothing has used the engine: no touch, no message, no output of a turn or background task.
    #[serde(default, skip_serializing_if = "Told::is_silent")]
    pub idle_ms: Told<Ms>,
    /// How long the running turn has emitted nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_silent_ms: Option<Ms>,
    /// How long the most recently heard background task has emitted nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_silent_ms: Option<Ms>,
    /// How long ago the engine asked its question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaiting_ms: Option<Ms>,
    /// One of the ages above was sent and could not be read, so the whole state counts as unknown. Never on the wire.
    #[serde(skip)]
    pub unclear: bool,
}

/// One element of the tracked set. How it is read stands in `tracked/element.rs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrackedSession {
    /// The session whose engine this is.
    pub session_id: Id,
    /// Which start of the session the engine belongs to; a foreign runner may not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Under which generation the engine was launched, where that is told: it may be known under a higher one by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<i64>,
    /// The engine's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// What it is doing.
    #[serde(flatten)]
    pub state: EngineState,
    /// The process id of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i64>,
    /// Memory of the whole process tree, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<i64>,
    /// Processor time of the whole process tree, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<i64>,
    /// How many clients are attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached: Option<i64>,
    /// What holds the process tree together: `subreaper`, `best_effort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containment: Option<String>,
    /// The engine's own id of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_session_id: Option<String>,
}

impl TrackedSession {
    /// Returns under which generation the engine was launched that is known under `generation` now. An earlier one means
    /// that its environment is still that of then.
    #[must_use]
    pub fn launched_under(&self, generation: i64) -> i64 {
        self.start.map_or(generation, |start| start.min(generation))
    }

    /// Makes the element that a bare id stands for: the engine is there, and nothing else is said.
    #[must_use]
    pub fn bare(session_id: Id) -> Self {
        Self {
            session_id,
            generation: None,
            start: None,
            engine: None,
            state: EngineState::default(),
            pid: None,
            rss_bytes: None,
            cpu_ms: None,
            attached: None,
            containment: None,
            engine_session_id: None,
        }
    }
}
