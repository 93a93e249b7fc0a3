//! The messages of the protocol, as far as they are needed here.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The code of a request that is not known here.
const METHOD_NOT_FOUND: i64 = -32_601;

/// What a line of the agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The response to a request of ours.
    Response {
        /// Its id.
        id: u64,
        /// What it brought; none when it was refused.
        result: Option<Value>,
        /// Why it was refused.
        error: Value,
    },
    /// A request of the agent.
    Request {
        /// Its id, of any form.
        id: Value,
        /// What it asks for.
        method: String,
    },
    /// The agent takes a request of its own back.
    Withdrawn {
        /// The request's id.
        id: Value,
    },
    /// A notification, or no message at all.
    Else,
}

/// What the agent can do, as far as it matters here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Can {
    /// Takes a conversation up without telling it again.
    pub(crate) resume: bool,
    /// Takes a conversation up and tells it again.
    pub(crate) load: bool,
    /// Lets go of a conversation.
    pub(crate) close: bool,
}

impl Can {
    /// Reads the agent's capabilities.
    pub(crate) fn read(capabilities: &Value) -> Self {
        let session = |name: &str| {
            let one = &capabilities["sessionCapabilities"][name];
            one.is_object() || one == &Value::Bool(true)
        };
        Self { resume: session("resume"), close: session("close"), load: capabilities["loadSession"] == true }
    }
}

/// Tells what a line is.
pub(crate) fn hear(line: &[u8]) -> Heard {
    let Ok(Value::Object(mut message)) = serde_json::from_slice::<Value>(line) else { return Heard::Else };
    let id = message.remove("id").filter(|id| !id.is_null());
    let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
    match (method, id) {
        (Some(method), Some(id)) => Heard::Request { id, method },
        (Some(method), None) if method == "$/cancel_request" => {
            Heard::Withdrawn { id: message.get("params").map(|params| params["requestId"].clone()).unwrap_or_default() }
        }
        (Some(_), None) | (None, None) => Heard::Else,
        (None, Some(id)) => match id.as_u64() {
            Some(id) => {
                let error = message.remove("error").unwrap_or_default();
                Heard::Response { id, result: message.remove("result"), error }
            }
            None => Heard::Else,
        },
    }
}

/// Makes a request.
pub(crate) fn request(id: u64, method: &str, params: &Value) -> String {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// Makes a notification.
pub(crate) fn notification(method: &str, params: &Value) -> String {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// Answers a request for a permission: its turn is cancelled.
pub(crate) fn cancelled(id: &Value) -> String {
    line(&json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "cancelled"}}}))
}

/// Answers a request that nothing here serves.
pub(crate) fn unknown_method(id: &Value, method: &str) -> String {
    let error = json!({"code": METHOD_NOT_FOUND, "message": "method not found", "data": {"method": method}});
    line(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

fn line(message: &Value) -> String {
    format!("{message}\n")
}
