//! The lines of Codex' app server: what is written to it, and the frame of what it writes.

use serde::Deserialize;
use serde_json::{Value, json};

/// One line of its output: a request, an answer or a notice.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    /// The id of a request or an answer.
    pub(super) id: Value,
    /// The method of a request or a notice.
    pub(super) method: Value,
    /// Its parameters.
    pub(super) params: Value,
    /// What was asked for.
    pub(super) result: Value,
    /// Why there is none.
    pub(super) error: Value,
}

/// Writes a request.
pub(super) fn request(id: u64, method: &str, params: &Value) -> String {
    format!("{}\n", json!({"id": id, "method": method, "params": params}))
}

/// Writes a notice.
pub(super) fn notice(method: &str) -> String {
    format!("{}\n", json!({"method": method}))
}

/// Writes the answer to a request that grants nothing, whatever was asked for.
pub(super) fn refusal(id: &Value, method: &str) -> String {
    let result = match method {
        "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => json!({"decision": "decline"}),
        "execCommandApproval" | "applyPatchApproval" => json!({"decision": "denied"}),
        "mcpServer/elicitation/request" => json!({"action": "decline", "content": null, "_meta": null}),
        "item/tool/requestUserInput" => json!({"answers": {}}),
        _ => return unsupported(id),
    };
    format!("{}\n", json!({"id": id, "result": result}))
}

/// Writes the answer to a request that cannot be answered.
pub(super) fn unsupported(id: &Value) -> String {
    format!("{}\n", json!({"id": id, "error": {"code": -32601, "message": "not supported"}}))
}

/// Returns whether a request is one that only a program could answer, so that no person is waited for.
pub(super) fn is_for_programs(method: &str) -> bool {
    matches!(method, "item/tool/call" | "account/chatgptAuthTokens/refresh" | "attestation/generate")
}

/// Returns whether a notice is part of the work in a turn; the others tick.
pub(super) fn is_work(method: &str) -> bool {
    let prefixes = ["item/", "turn/", "rawResponse", "hook/", "process/", "command/", "thread/realtime/"];
    method == "error" || prefixes.iter().any(|prefix| method.starts_with(prefix))
}
