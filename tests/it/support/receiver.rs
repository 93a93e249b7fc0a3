//! A receiver of webhooks that does what it is told, and remembers what it got.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sexton::config::{Config, WebhookConfig};
use sexton::entry::EntryKind;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// The key that its webhook signs with.
pub(crate) const KEY: &str = "a key of a webhook";

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Takes,
    Says(u16),
    Hangs,
}

/// A message that came in, whatever was answered.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) id: String,
    pub(crate) seconds: i64,
    pub(crate) signature: String,
    pub(crate) raw: Bytes,
    pub(crate) body: Value,
    /// Whether it was taken.
    pub(crate) taken: bool,
}

struct Shared {
    mood: Mutex<Mood>,
    got: Mutex<Vec<Got>>,
}

pub(crate) struct Receiver {
    pub(crate) url: String,
    shared: Arc<Shared>,
    folder: TempDir,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let shared = Arc::new(Shared { mood: Mutex::new(Mood::Takes), got: Mutex::default() });
        let router = Router::new().fallback(take).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), KEY).unwrap();
        Self { url, shared, folder }
    }

    pub(crate) fn set(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    /// Returns all messages that came in, in their order.
    pub(crate) fn got(&self) -> Vec<Got> {
        self.shared.got.lock().unwrap().clone()
    }

    /// Returns those that it took.
    pub(crate) fn taken(&self) -> Vec<Got> {
        self.got().into_iter().filter(|got| got.taken).collect()
    }

    /// Returns the settings of a webhook that delivers here.
    pub(crate) fn hook(&self, name: &str) -> WebhookConfig {
        WebhookConfig {
            name: name.parse().unwrap(),
            url: self.url.clone(),
            secret_file: self.folder.path().join("secret").to_str().unwrap().to_owned(),
            owner: String::new(),
            events: EntryKind::ALL.to_vec(),
        }
    }

    /// Adds that webhook to settings.
    pub(crate) fn enrol(&self, config: &mut Config) {
        config.webhooks.push(self.hook("boss"));
    }
}

async fn take(State(shared): State<Arc<Shared>>, headers: HeaderMap, raw: Bytes) -> Response {
    let mood = *shared.mood.lock().unwrap();
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    shared.got.lock().unwrap().push(Got {
        id: header("webhook-id"),
        seconds: header("webhook-timestamp").parse().unwrap(),
        signature: header("webhook-signature"),
        body: serde_json::from_slice(&raw).unwrap(),
        raw,
        taken: mood == Mood::Takes,
    });
    let status = match mood {
        Mood::Takes => 204,
        Mood::Says(status) => status,
        Mood::Hangs => {
            tokio::time::sleep(Duration::from_secs(600)).await;
            500
        }
    };
    Response::builder().status(status).header("location", "/elsewhere").body(Body::empty()).unwrap()
}

impl Got {
    /// Returns whether the signature is right, by the definition of HMAC and with nothing of Sexton's.
    pub(crate) fn verifies(&self, key: &str) -> bool {
        let mut block = [0_u8; 64];
        block[..key.len()].copy_from_slice(key.as_bytes());
        let padded = |with: u8| block.map(|byte| byte ^ with);
        let signed = [format!("{}.{}.", self.id, self.seconds).as_bytes(), &self.raw].concat();
        let inner = Sha256::digest([&padded(0x36)[..], &signed].concat());
        let outer = Sha256::digest([&padded(0x5c)[..], &inner].concat());
        self.signature == format!("v1,{}", STANDARD.encode(outer))
    }

    pub(crate) fn seq(&self) -> i64 {
        self.body["seq"].as_i64().unwrap()
    }

    pub(crate) fn session(&self) -> String {
        self.body["session"]["id"].as_str().unwrap().to_owned()
    }
}
