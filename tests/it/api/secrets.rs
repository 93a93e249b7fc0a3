//! No token ever stands in the log or in an answer.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::api::{Ask, Host, ME, make_token};

/// Keeps what is logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps what this thread logs, until the guard is dropped.
    pub(crate) fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let shown = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        let guard = tracing::subscriber::set_default(shown.with_writer(log.clone()).finish());
        (log, guard)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn tokens_stay_out_of_logs_and_answers() {
    let (log, _guard) = Log::start();
    let host = Host::new().await;
    host.world.session("s", 0, |_| ()).await;
    let good = make_token(&host.world, ME, "read").await;
    let bad = "sxt_this-is-nobodys-token";
    let mut said = Vec::new();
    for secret in [good.as_str(), bad] {
        let message = json!({"text": secret});
        for ask in [
            Ask::new("GET", "/v1/sessions").token(secret),
            Ask::new("GET", "/v1/sessions/s/explain").token(secret),
            Ask::new("POST", "/v1/sweeps").token(secret),
            Ask::new("GET", &format!("/v1/sessions?token={secret}")),
            Ask::new("GET", &format!("/nowhere/{secret}")).token(secret),
            Ask::new("GET", &format!("/v1/sessions/{secret}")),
            Ask::new("GET", "/v1/sessions").header("authorization", secret),
            Ask::new("POST", "/v1/sessions/s/messages").token(secret).json(&message),
            Ask::new("GET", "/healthz").token(secret).header("host", "evil.example"),
        ] {
            said.extend_from_slice(&host.ask(ask).await.body);
        }
    }
    host.world.store().close().await;
    for ask in [Ask::new("GET", "/v1/sessions").token(&good), Ask::new("GET", "/readyz").token(&good)] {
        said.extend_from_slice(&host.ask(ask).await.body);
    }
    let (said, logged) = (String::from_utf8(said).unwrap(), log.text());
    assert!(logged.contains("a request failed"), "the log is looked at");
    for secret in [good.trim_start_matches("sxt_"), "nobodys", host.token.trim_start_matches("sxt_")] {
        assert!(!logged.contains(secret) && !said.contains(secret), "{secret}\n{logged}\n{said}");
    }
}
