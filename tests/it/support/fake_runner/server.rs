//! The HTTP side of the fake runner: records, holds, decides, answers.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use sexton::protocol::EndOutcome;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::support::fake_runner::{Answering, Call, Raw, Shared, Verb, When};

static SEQ: AtomicU64 = AtomicU64::new(0);

pub(super) fn spawn(listener: TcpListener, shared: Arc<Shared>) -> JoinHandle<()> {
    let router = Router::new().fallback(handle).with_state(shared);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() })
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let mut dead = shared.dead.subscribe();
    tokio::select! {
        response = answer(&shared, request) => response,
        _ = dead.wait_for(|dead| *dead) => reset(),
    }
}

async fn answer(shared: &Shared, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Some(verb) = Verb::at(parts.uri.path()) else { return respond(Raw::bare(404)) };
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let call = record(shared, verb, parts.uri.query().unwrap_or_default(), &parts.headers, &body);
    run_hooks(shared, When::Arrived, &call).await;
    let (answering, raw) = decide(shared, &call);
    run_hooks(shared, When::Decided, &call).await;
    match answering {
        Answering::Hang => std::future::pending().await,
        Answering::Reset => reset(),
        Answering::HangAfterHeaders => stream_of(stream::pending::<Result<Bytes, Infallible>>()),
        Answering::Endless => {
            stream_of(stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b' '; 65_536]))))
        }
        Answering::CutOff => cut_off(),
        Answering::Truly
        | Answering::Raw(_)
        | Answering::DoThen(_)
        | Answering::Refuse(_)
        | Answering::Accept
        | Answering::Altered(_) => respond(raw),
    }
}

fn record(shared: &Shared, verb: Verb, query: &str, headers: &HeaderMap, body: &[u8]) -> Call {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let bearer = headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let call = Call {
        seq: SEQ.fetch_add(1, Ordering::SeqCst),
        at: shared.clock.now(),
        verb,
        session_id: body["session_id"].as_str().and_then(|id| id.parse().ok()),
        query: query.to_owned(),
        secret: bearer.map(str::to_owned),
        body,
    };
    shared.calls.send_modify(|calls| calls.push(call.clone()));
    call
}

async fn run_hooks(shared: &Shared, when: When, call: &Call) {
    let hooks: Vec<_> = {
        let hooks = shared.hooks.lock().unwrap();
        hooks
            .iter()
            .filter(|(verb, at, _)| *verb == call.verb && *at == when)
            .map(|(.., hook)| Arc::clone(hook))
            .collect()
    };
    for hook in hooks {
        hook(call.clone()).await;
    }
}

/// Does what the orders say, and returns what is left of them and the bytes to send.
fn decide(shared: &Shared, call: &Call) -> (Answering, Raw) {
    let mut script = shared.script.lock().unwrap();
    if script.secret.is_some() && script.secret != call.secret {
        return (Answering::Truly, Raw::json(401, r#"{"error":"unauthorised"}"#));
    }
    let mut answering = script.orders(call.verb, call.session_id.as_ref());
    let mut done = None;
    while let Answering::DoThen(then) = answering {
        done = Some(script.truly(call, &*shared.clock));
        answering = *then;
    }
    let raw = match &answering {
        Answering::Raw(raw) => with_ask(raw, call),
        Answering::Refuse(because) => {
            script.about(call, 409, &json!({"outcome": EndOutcome::Refused, "because": because, "idle_ms": 0}))
        }
        Answering::Accept => script.about(call, 202, &json!({"outcome": EndOutcome::Accepted})),
        Answering::Altered(change) => altered(script.truly(call, &*shared.clock), change),
        Answering::Truly => done.unwrap_or_else(|| script.truly(call, &*shared.clock)),
        Answering::Hang
        | Answering::HangAfterHeaders
        | Answering::Reset
        | Answering::CutOff
        | Answering::Endless
        | Answering::DoThen(_) => Raw::bare(500),
    };
    (answering, raw)
}

/// Puts the real `ask` in place of the one that the stored replies hold.
fn with_ask(raw: &Raw, call: &Call) -> Raw {
    let ask = call.query.strip_prefix("ask=").unwrap_or_default();
    match String::from_utf8(raw.body.clone()) {
        Ok(text) => Raw { body: text.replace("r4nd0m", ask).into_bytes(), ..raw.clone() },
        Err(_) => raw.clone(),
    }
}

fn altered(raw: Raw, change: &Value) -> Raw {
    let mut body: Value = serde_json::from_slice(&raw.body).unwrap();
    let fields = body.as_object_mut().unwrap();
    fields.extend(change.as_object().unwrap().clone());
    Raw { body: body.to_string().into_bytes(), ..raw }
}

/// Every connection serves one call, so that a runner that died leaves no open one behind.
fn respond(raw: Raw) -> Response {
    let mut response = Response::builder().status(raw.status).header("connection", "close");
    for (name, value) in raw.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(raw.body)).unwrap()
}

fn stream_of<S, E>(stream: S) -> Response
where
    S: futures_util::Stream<Item = Result<Bytes, E>> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let start = stream::once(async { Ok(Bytes::from_static(b"{\"tracked\":[")) });
    let body = Body::from_stream(start.chain(stream));
    Response::builder().header("content-type", "application/json").header("connection", "close").body(body).unwrap()
}

/// A stream that fails makes the server break the connection in the middle of the body; what stands before is sent when
/// the stream lets it.
fn cut_off() -> Response {
    stream_of(stream::once(async {
        tokio::task::yield_now().await;
        Err::<Bytes, _>(std::io::Error::other("cut off"))
    }))
}

/// Ends the task of the connection without an answer and without the noise of a panic.
fn reset() -> Response {
    std::panic::resume_unwind(Box::new("connection reset on purpose"))
}
