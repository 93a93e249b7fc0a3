//! The Responses API, streamed, as far as engines need it.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::script::{Act, Item, last, next};
use super::{Asked, Piece, refused, streamed};

/// How long a command of the foreground may take before it goes on in the background.
const FOREGROUND_MS: u64 = 30_000;
/// The same for one that shall go on in the background.
const BACKGROUND_MS: u64 = 250;

pub(crate) async fn responses(State(asked): State<Asked>, Json(request): Json<Value>) -> Response {
    let items = items(&request);
    asked.lock().unwrap().push(last(&items));
    let acts = next(&items);
    if let Some(Act::Refuse(status)) = acts.first() {
        return refused(*status);
    }
    let id = || uuid::Uuid::new_v4().simple().to_string();
    let response = json!({"id": format!("resp_{}", id()), "object": "response", "status": "in_progress", "output": []});
    let mut pieces = vec![Piece::Say(json!({"type": "response.created", "response": response}))];
    for (index, act) in acts.into_iter().enumerate() {
        pieces.extend(obeyed(index, act, &id()));
    }
    let usage = json!({"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
                       "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2});
    let response =
        json!({"id": response["id"], "object": "response", "status": "completed", "output": [], "usage": usage});
    pieces.push(Piece::Say(json!({"type": "response.completed", "response": response})));
    streamed(pieces)
}

fn obeyed(index: usize, act: Act, id: &str) -> Vec<Piece> {
    match act {
        Act::Say(text) => said(index, id, &[text], Duration::ZERO),
        Act::Slow(time) => {
            let parts = vec!["tick ".to_owned(); usize::try_from(time.as_millis() / 100).unwrap() + 1];
            said(index, id, &parts, Duration::from_millis(100))
        }
        Act::Shell { command, background } => {
            let patience = if background { BACKGROUND_MS } else { FOREGROUND_MS };
            called(index, id, "exec_command", &json!({"cmd": command, "yield_time_ms": patience}))
        }
        Act::Tool(name, input) => called(index, id, &name, &input),
        Act::Stall => vec![Piece::Stall],
        Act::Refuse(_) => Vec::new(),
    }
}

fn said(index: usize, id: &str, parts: &[String], pause: Duration) -> Vec<Piece> {
    let item =
        |content: Value| json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "content": content});
    let mut pieces = vec![added(index, &item(json!([])))];
    for part in parts {
        pieces.push(Piece::Say(json!({"type": "response.output_text.delta", "item_id": format!("msg_{id}"),
                                      "output_index": index, "content_index": 0, "delta": part})));
        if !pause.is_zero() {
            pieces.push(Piece::Pause(pause));
        }
    }
    pieces.push(finished(index, &item(json!([{"type": "output_text", "text": parts.concat(), "annotations": []}]))));
    pieces
}

fn called(index: usize, id: &str, name: &str, input: &Value) -> Vec<Piece> {
    let item = json!({"id": format!("fc_{id}"), "type": "function_call", "call_id": format!("call_{id}"),
                      "name": name, "arguments": input.to_string()});
    vec![added(index, &item), finished(index, &item)]
}

fn added(index: usize, item: &Value) -> Piece {
    Piece::Say(json!({"type": "response.output_item.added", "output_index": index, "item": item}))
}

fn finished(index: usize, item: &Value) -> Piece {
    Piece::Say(json!({"type": "response.output_item.done", "output_index": index, "item": item}))
}

fn items(request: &Value) -> Vec<Item> {
    let items = request["input"].as_array().into_iter().flatten();
    items.flat_map(item).collect()
}

fn item(item: &Value) -> Vec<Item> {
    match (item["type"].as_str(), item["role"].as_str()) {
        (Some("message") | None, Some("user")) => {
            let texts = item["content"].as_array().into_iter().flatten();
            texts.filter_map(|part| part["text"].as_str()).map(|text| Item::User(text.to_owned())).collect()
        }
        (Some("message") | None, Some("assistant")) => vec![Item::Model],
        (Some(kind), _) if kind.ends_with("_output") => vec![Item::Result],
        (Some(kind), _) if kind.ends_with("_call") => vec![Item::Model],
        _ => Vec::new(),
    }
}
