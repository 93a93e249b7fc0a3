//! One line of Claude Code's output, as far as its state is concerned.

use serde::Deserialize;
use serde_json::Value;

/// The fields that say something about its state; a message's content, which may be large, is left out.
///
/// Each may be of any type: a line of a later version is still read as far as it is understood.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    #[serde(rename = "type")]
    kind: Value,
    subtype: Value,
    session_id: Value,
    state: Value,
    status: Value,
    task_id: Value,
    tool_use_id: Value,
    parent_tool_use_id: Value,
    request_id: Value,
    patch: Patch,
    request: Request,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Patch {
    status: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Request {
    subtype: Value,
}

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The beginning of a turn's lines, with the id of the conversation.
    Init(Option<String>),
    /// It works.
    Running,
    /// It waits for a person.
    RequiresAction,
    /// The turn is over.
    Idle,
    /// The result of a turn.
    Result,
    /// A task began: its id and that of the tool's call that began it.
    TaskBegan(String, Option<String>),
    /// A task has settled.
    TaskSettled(String),
    /// Something of a task that lives.
    OfTask(String),
    /// A question to a person: its id and kind.
    Question(String, String),
    /// A question that needs no answer any more.
    Withdrawn(String),
    /// A message of the model, or of a tool, with the call that it is below of.
    Message {
        /// It is the model's.
        model: bool,
        /// The call of the tool that it belongs to.
        parent: Option<String>,
    },
    /// A sign of life that is no work, not even in a turn.
    Status,
    /// A notice: part of the work in a turn, and none outside of one.
    Notice,
    /// Anything else.
    Other,
}

/// Reads a line.
pub(super) fn read(line: &[u8]) -> Said {
    let Ok(line) = serde_json::from_slice::<Line>(line) else { return Said::Other };
    match line.kind.as_str().unwrap_or_default() {
        "system" => line.system(),
        "result" => Said::Result,
        "control_request" => match (text(&line.request_id), text(&line.request.subtype)) {
            (Some(id), kind) => Said::Question(id, kind.unwrap_or_default()),
            (None, _) => Said::Other,
        },
        "control_cancel_request" => text(&line.request_id).map_or(Said::Other, Said::Withdrawn),
        "control_response" | "keep_alive" => Said::Status,
        kind @ ("assistant" | "user" | "stream_event" | "tool_progress") => {
            let parent = text(&line.parent_tool_use_id);
            Said::Message { model: matches!(kind, "assistant" | "stream_event"), parent }
        }
        _ => Said::Other,
    }
}

impl Line {
    fn system(&self) -> Said {
        match self.subtype.as_str().unwrap_or_default() {
            "init" => Said::Init(text(&self.session_id)),
            "session_state_changed" => match self.state.as_str() {
                Some("running") => Said::Running,
                Some("requires_action") => Said::RequiresAction,
                Some("idle") => Said::Idle,
                _ => Said::Other,
            },
            subtype => match text(&self.task_id) {
                Some(task) => self.task(subtype, task),
                None => Said::Notice,
            },
        }
    }

    /// A word for a task's state that is not known lets the task live.
    fn task(&self, subtype: &str, task: String) -> Said {
        let settled = |status: &Value| matches!(status.as_str(), Some("completed" | "failed" | "stopped" | "killed"));
        match subtype {
            "task_started" => Said::TaskBegan(task, text(&self.tool_use_id)),
            "task_updated" if settled(&self.patch.status) => Said::TaskSettled(task),
            "task_notification" if settled(&self.status) => Said::TaskSettled(task),
            _ => Said::OfTask(task),
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
