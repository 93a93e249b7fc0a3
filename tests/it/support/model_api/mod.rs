//! A model's API on the loopback that does what the last message tells it: no account, no network, no chance.
//!
//! It speaks the Messages API of Anthropic (`/v1/messages`) and the Responses API of `OpenAI` (`/v1/responses`), streamed.
//! A line of a user's message that begins with one of these words is a directive; all of a message are obeyed in order:
//!
//! - `@say TEXT`: answers with the text; so does anything that holds no directive, with `noted`, and the result of a
//!   tool, with `done`
//! - `@run MS`: runs a shell command of so many milliseconds in the foreground
//! - `@bg MS`: starts one in the background, where the engine has such a thing
//! - `@sh COMMAND` and `@bgsh COMMAND`: the same with any command
//! - `@tool NAME JSON`: calls any tool
//! - `@slow MS`: answers in small pieces for so long
//! - `@stall`: begins an answer and never goes on
//! - `@err STATUS`: refuses the request with that status (400 without one)
//! - `@recall`: answers with what earlier messages of the user said with `@say`, which proves a context

mod anthropic;
mod openai;
mod script;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::support::model_api::script::{Act, Item, last, next};

/// A model's API that runs until it is dropped.
pub(crate) struct ModelApi {
    /// Where it is, without a path: `http://127.0.0.1:PORT`.
    pub(crate) base_url: String,
    asked: Asked,
    said: Asked,
    served: JoinHandle<()>,
}

/// Texts, in the order in which they came.
type Asked = Arc<Mutex<Vec<String>>>;

/// What went through it.
#[derive(Clone, Default)]
struct Heard {
    /// The last item of each request in words.
    asked: Asked,
    /// The texts that it answered with.
    said: Asked,
}

impl Heard {
    /// Returns what is to be done, and takes note of it.
    fn next(&self, items: &[Item]) -> Vec<Act> {
        let acts = next(items);
        self.asked.lock().unwrap().push(last(items));
        let texts = acts.iter().filter_map(|act| match act {
            Act::Say(text) => Some(text.clone()),
            Act::Slow(_) | Act::Shell { .. } | Act::Tool(..) | Act::Stall | Act::Refuse(_) => None,
        });
        self.said.lock().unwrap().extend(texts);
        acts
    }
}

impl ModelApi {
    /// Starts it on a free port.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener)
    }

    /// Starts it on a listener.
    pub(crate) fn on(listener: TcpListener) -> Self {
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Heard::default();
        let (asked, said) = (Arc::clone(&heard.asked), Arc::clone(&heard.said));
        let app = Router::new()
            .route("/v1/messages", post(anthropic::messages))
            .route("/v1/messages/count_tokens", post(|| async { axum::Json(json!({"input_tokens": 1})) }))
            .route("/v1/responses", post(openai::responses))
            .route("/v1/models", get(|| async { axum::Json(json!({"data": [], "models": []})) }))
            .fallback(any(|| async { (StatusCode::NOT_FOUND, axum::Json(json!({}))) }))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(heard);
        let served = tokio::spawn(async move { drop(axum::serve(listener, app).await) });
        Self { base_url, asked, said, served }
    }

    /// Returns what each request so far ended with: the text of a user, or `tool result`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the whole texts that it answered with so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }
}

impl Drop for ModelApi {
    fn drop(&mut self) {
        self.served.abort();
    }
}

/// A piece of a streamed answer.
enum Piece {
    /// An event.
    Say(Value),
    /// A pause before the next one.
    Pause(Duration),
    /// Silence for ever.
    Stall,
}

/// Streams the pieces; each is an event named by its `type`.
fn streamed(pieces: Vec<Piece>) -> Response {
    let events = stream::unfold(pieces.into_iter(), |mut rest| async move {
        loop {
            match rest.next()? {
                Piece::Say(value) => {
                    let name = value["type"].as_str().unwrap_or("message").to_owned();
                    let event = Event::default().event(name).data(value.to_string());
                    return Some((Ok::<_, Infallible>(event), rest));
                }
                Piece::Pause(time) => tokio::time::sleep(time).await,
                Piece::Stall => std::future::pending().await,
            }
        }
    });
    Sse::new(events).into_response()
}

/// Refuses as both APIs do.
fn refused(status: u16) -> Response {
    let kind = if status == 529 { "overloaded_error" } else { "invalid_request_error" };
    let body = json!({"type": "error", "error": {"type": kind, "message": "refused as told"}});
    (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
}
