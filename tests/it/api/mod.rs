//! The API: its routes as its callers see them, in one process with a real store and scripted runners.

mod activity;
mod attach;
mod connectivity;
mod cost;
mod cursors;
mod deliveries;
mod doors;
mod driver;
mod ensure;
mod feed;
mod lease;
mod owners;
mod race;
mod runs;
pub(crate) mod secrets;
mod serve;
mod sessions;
mod sweeps;
mod using;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use serde_json::Value;
use sexton::api;
use sexton::config::Config;
use sexton::token;
use sexton::worker::Worker;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::support::world::World;

/// The owner that the world's sessions belong to.
const ME: &str = "me";

/// Settings under which no tick comes while a test runs.
fn quiet(config: &mut Config) {
    config.schedule.sweep = "0 0 0 1 1 *".to_owned();
}

/// A worker at work, and its API without a port.
struct Host {
    world: World,
    worker: Worker,
    router: Router,
    token: String,
    stop: CancellationToken,
}

impl Host {
    /// Makes one whose token allows everything.
    async fn new() -> Self {
        Self::with(|_| ()).await
    }

    async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let world = World::with(|config| {
            quiet(config);
            change(config);
        })
        .await;
        let (worker, work) = Worker::new(&world.tools).unwrap();
        let router = api::router(worker.clone(), ME.to_owned(), "127.0.0.1:7117".parse().unwrap()).unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(work.run(stop.clone(), stop.clone()));
        let token = make_token(&world, ME, "admin").await;
        Self { world, worker, router, token, stop }
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask(Ask::new("GET", path).token(&self.token)).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(Ask::new("POST", path).token(&self.token).json(&body)).await
    }

    async fn ask(&self, ask: Ask) -> Answer {
        let response = self.router.clone().oneshot(ask.request()).await.unwrap();
        let (parts, mut body) = response.into_parts();
        // A stream has no end to wait for.
        if parts.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream") {
            body = Body::empty();
        }
        Answer { status: parts.status, headers: parts.headers, body: to_bytes(body, 1 << 24).await.unwrap() }
    }
}

impl Host {
    /// Asks, and reads the body only where it has an end: what streams is let go.
    async fn head_of(&self, ask: Ask) -> Answer {
        let response = self.router.clone().oneshot(ask.request()).await.unwrap();
        let (parts, body) = response.into_parts();
        let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let has_end = kind.starts_with("application/json");
        let body = if has_end { to_bytes(body, 1 << 24).await.unwrap() } else { Bytes::new() };
        Answer { status: parts.status, headers: parts.headers, body }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Makes a token and keeps its hash.
async fn make_token(world: &World, owner: &str, scopes: &str) -> String {
    let (row, secret) = token::create(owner, &scopes.parse().unwrap(), world.now()).unwrap();
    world.store().insert_token(&row).await.unwrap();
    secret.expose().to_owned()
}

/// A request to be made.
#[derive(Clone)]
struct Ask {
    method: String,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Ask {
    fn new(method: &str, path: &str) -> Self {
        let host = ("host", "localhost:7117".to_owned());
        Self { method: method.to_owned(), path: path.to_owned(), headers: vec![host], body: Vec::new() }
    }

    fn token(self, token: &str) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    fn json(self, body: &Value) -> Self {
        self.text(body.to_string()).header("content-type", "application/json")
    }

    fn text(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    fn request(&self) -> Request<Body> {
        let mut request = Request::builder().method(self.method.as_str()).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.body(Body::from(self.body.clone())).unwrap()
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Reads a success.
    fn ok(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        self.json()
    }

    /// Reads an error: its status and its code, after a check of its shape.
    fn error(&self) -> (u16, String) {
        assert!(self.status.is_client_error() || self.status.is_server_error(), "{self:?}");
        let body = self.json();
        let (outer, inner) = (body.as_object().unwrap(), body["error"].as_object().unwrap());
        assert_eq!((outer.len(), inner.len()), (1, 2), "{body}");
        assert!(!inner["message"].as_str().unwrap().is_empty());
        (self.status.as_u16(), inner["code"].as_str().unwrap().to_owned())
    }

    fn code(&self) -> String {
        self.error().1
    }
}
