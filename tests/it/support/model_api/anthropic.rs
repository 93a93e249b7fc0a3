//! The Messages API, streamed, as far as engines need it.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::support::model_api::script::{Act, Item};
use crate::support::model_api::{Heard, Piece, refused, streamed};

pub(crate) async fn messages(State(heard): State<Heard>, Json(request): Json<Value>) -> Response {
    let items = items(&request);
    let tools = names(&request);
    let shell = tools.iter().find(|name| name.eq_ignore_ascii_case("bash")).cloned();
    // A request without tools is one for a title or a summary.
    let acts = if shell.is_none() { vec![Act::Say("a title".to_owned())] } else { heard.next(&items) };
    if let Some(Act::Refuse(status)) = acts.first() {
        return refused(*status);
    }
    let mut answer = Answer { pieces: Vec::new(), blocks: Vec::new() };
    for act in acts {
        answer.act(act, shell.as_deref().unwrap_or("Bash"));
    }
    answer.finish(&request)
}

/// An answer in the making, both streamed and whole.
struct Answer {
    pieces: Vec<Piece>,
    blocks: Vec<Value>,
}

impl Answer {
    fn act(&mut self, act: Act, shell: &str) {
        match act {
            Act::Say(text) => self.text(&[text], Duration::ZERO),
            Act::Slow(time) => {
                let pieces = vec!["tick ".to_owned(); usize::try_from(time.as_millis() / 100).unwrap() + 1];
                self.text(&pieces, Duration::from_millis(100));
            }
            Act::Shell { command, background } => {
                let mut input = json!({"command": command, "description": "as told"});
                if background {
                    input["run_in_background"] = json!(true);
                }
                self.tool(shell, &input);
            }
            Act::Tool(name, input) => self.tool(&name, &input),
            Act::Stall => self.pieces.push(Piece::Stall),
            Act::Refuse(_) => {}
        }
    }

    fn text(&mut self, parts: &[String], pause: Duration) {
        let index = self.blocks.len();
        self.begin(index, &json!({"type": "text", "text": ""}));
        for part in parts {
            let delta = json!({"type": "text_delta", "text": part});
            self.pieces.push(Piece::Say(json!({"type": "content_block_delta", "index": index, "delta": delta})));
            if !pause.is_zero() {
                self.pieces.push(Piece::Pause(pause));
            }
        }
        self.pieces.push(Piece::Say(json!({"type": "content_block_stop", "index": index})));
        self.blocks.push(json!({"type": "text", "text": parts.concat()}));
    }

    fn tool(&mut self, name: &str, input: &Value) {
        let index = self.blocks.len();
        let id = format!("toolu_{}", uuid::Uuid::new_v4().simple());
        self.begin(index, &json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
        let delta = json!({"type": "input_json_delta", "partial_json": input.to_string()});
        self.pieces.push(Piece::Say(json!({"type": "content_block_delta", "index": index, "delta": delta})));
        self.pieces.push(Piece::Say(json!({"type": "content_block_stop", "index": index})));
        self.blocks.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
    }

    fn begin(&mut self, index: usize, block: &Value) {
        self.pieces.push(Piece::Say(json!({"type": "content_block_start", "index": index, "content_block": block})));
    }

    fn finish(self, request: &Value) -> Response {
        let tools = self.blocks.iter().any(|block| block["type"] == "tool_use");
        let reason = if tools { "tool_use" } else { "end_turn" };
        let message = |content: &[Value], reason: Option<&str>| {
            json!({"id": format!("msg_{}", uuid::Uuid::new_v4().simple()), "type": "message", "role": "assistant",
                   "model": request["model"], "content": content, "stop_reason": reason, "stop_sequence": null,
                   "usage": {"input_tokens": 1, "output_tokens": 1}})
        };
        if request["stream"] != true {
            return Json(message(&self.blocks, Some(reason))).into_response();
        }
        let mut pieces = vec![Piece::Say(json!({"type": "message_start", "message": message(&[], None)}))];
        pieces.extend(self.pieces);
        let delta = json!({"stop_reason": reason, "stop_sequence": null});
        pieces.push(Piece::Say(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}})));
        pieces.push(Piece::Say(json!({"type": "message_stop"})));
        streamed(pieces)
    }
}

fn names(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect()
}

fn items(request: &Value) -> Vec<Item> {
    let messages = request["messages"].as_array().into_iter().flatten();
    messages.flat_map(|message| blocks(message["role"].as_str().unwrap_or_default(), &message["content"])).collect()
}

fn blocks(role: &str, content: &Value) -> Vec<Item> {
    // A message that comes while the model works is handed to it as the system's.
    if !matches!(role, "user" | "system") {
        return vec![Item::Model];
    }
    if let Some(text) = content.as_str() {
        return vec![Item::User(text.to_owned())];
    }
    let blocks = content.as_array().into_iter().flatten();
    let item = |block: &Value| match block["type"].as_str() {
        Some("tool_result") => Item::Result,
        _ => Item::User(block["text"].as_str().unwrap_or_default().to_owned()),
    };
    blocks.map(item).collect()
}
