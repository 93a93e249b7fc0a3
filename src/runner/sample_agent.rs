//! A small agent of the Agent Client Protocol, for tests: `sexton sample-engine acp`.
//!
//! It answers each prompt with all that it was told in the conversation, which it keeps in a file of the folder it runs
//! in. A prompt that begins with `@ask` asks for a permission first, one that begins with `@stall` says nothing and never
//! ends by itself, and one that begins with `@leave` leaves a process behind that sleeps for as long as the rest of it says.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Write};
use std::process::{Command, ExitCode, Stdio};

use serde_json::{Value, json};

/// The id of its only request at a time.
const PERMISSION: &str = "permission-1";

/// The prompt that is not answered yet.
type Open = Option<(Value, String)>;

/// Runs it until its input ends.
pub(crate) fn main() -> ExitCode {
    let mut open: Open = None;
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str() {
            Some("initialize") => answer(id, &capabilities()),
            Some("session/new") => begin(id),
            Some("session/resume") => take_up(id, params["sessionId"].as_str().unwrap_or_default()),
            Some("session/prompt") => open = prompt(id, params),
            Some("session/cancel") => stop(&mut open, "cancelled"),
            Some("session/close") => {
                stop(&mut open, "cancelled");
                answer(id, &json!({}));
            }
            Some(method) if !id.is_null() => refuse(id, -32_601, method),
            Some(_) => {}
            // The answer to its own request.
            None if *id == PERMISSION => stop(&mut open, "end_turn"),
            None => {}
        }
    }
    ExitCode::SUCCESS
}

fn capabilities() -> Value {
    let session = json!({"close": {}, "resume": {}});
    json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": false, "sessionCapabilities": session}})
}

fn file(conversation: &str) -> String {
    format!("conversation-{conversation}.txt")
}

fn begin(id: &Value) {
    let conversation = format!("agent-{}", std::process::id());
    match fs::write(file(&conversation), "") {
        Ok(()) => answer(id, &json!({"sessionId": conversation})),
        Err(error) => refuse(id, -32_603, &error.to_string()),
    }
}

fn take_up(id: &Value, conversation: &str) {
    let is_one = !conversation.contains('/') && fs::exists(file(conversation)).unwrap_or_default();
    if is_one { answer(id, &json!({})) } else { refuse(id, -32_002, "there is no such conversation") }
}

fn prompt(id: &Value, params: &Value) -> Open {
    let conversation = params["sessionId"].as_str().unwrap_or_default();
    let text = params["prompt"][0]["text"].as_str().unwrap_or_default();
    let added = OpenOptions::new().append(true).open(file(conversation)).and_then(|mut it| writeln!(it, "{text}"));
    if let Err(error) = added {
        refuse(id, -32_602, &error.to_string());
        return None;
    }
    let mut open = Some((id.clone(), conversation.to_owned()));
    if text.starts_with("@stall") {
        // Nothing of it comes at a moment that nobody can wait for.
        return open;
    }
    update(conversation, "working on it");
    if text.starts_with("@ask") {
        let options = json!([{"optionId": "yes", "kind": "allow_once", "name": "Allow once"}]);
        let params = json!({"sessionId": conversation, "toolCall": {"toolCallId": "1"}, "options": options});
        say(&json!({"id": PERMISSION, "method": "session/request_permission", "params": params}));
    } else if let Some(word) = text.strip_prefix("@leave ") {
        let left =
            Command::new("sleep").arg(word).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        drop(left);
        stop(&mut open, "end_turn");
    } else {
        stop(&mut open, "end_turn");
    }
    open
}

fn stop(open: &mut Open, reason: &str) {
    if let Some((id, conversation)) = open.take() {
        let told = fs::read_to_string(file(&conversation)).unwrap_or_default();
        update(&conversation, &told.lines().collect::<Vec<_>>().join(" | "));
        answer(&id, &json!({"stopReason": reason}));
    }
}

fn update(conversation: &str, text: &str) {
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    say(&json!({"method": "session/update", "params": {"sessionId": conversation, "update": update}}));
}

fn answer(id: &Value, result: &Value) {
    say(&json!({"id": id, "result": result}));
}

fn refuse(id: &Value, code: i64, message: &str) {
    say(&json!({"id": id, "error": {"code": code, "message": message}}));
}

/// A reader that is gone ends an agent anyway.
fn say(message: &Value) {
    let mut message = message.clone();
    message["jsonrpc"] = "2.0".into();
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}
