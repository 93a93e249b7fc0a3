//! The bridge with the real OpenCode, where it is installed: what the adapter rests on is still so.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::engines::installed::{installed, opencode_env};
use crate::support::model_api::ModelApi;
use crate::support::processes::{sleeping, unique};

/// A first start makes a database, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A bridge with the real server behind it.
struct Live {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    id: String,
}

impl Live {
    /// Starts it in `home`, and opens the session, or takes it up.
    async fn start(program: &Path, home: &Path, api: &ModelApi, session: Option<&str>) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sexton"))
            .args(["opencode-bridge", "--"])
            .arg(program)
            .args(["serve", "--port", "0", "--hostname", "127.0.0.1"])
            .envs(opencode_env(home, &api.base_url))
            .current_dir(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut this = Self { child, stdin, stdout: BufReader::new(stdout).lines(), id: String::new() };
        this.send(&json!({"type": "open", "session_id": session})).await;
        let ready = this.until(|line| line["type"] == "ready").await;
        this.id = ready.last().unwrap()["session_id"].as_str().unwrap().to_owned();
        this
    }

    async fn send(&mut self, command: &Value) {
        self.stdin.write_all(format!("{command}\n").as_bytes()).await.unwrap();
    }

    /// Returns the lines up to one that fits.
    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut lines = Vec::new();
        let all = async {
            while !lines.last().is_some_and(&fits) {
                let line = self.stdout.next_line().await.unwrap().expect("it still speaks");
                lines.push(serde_json::from_str(&line).unwrap());
            }
        };
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            panic!("never: {lines:#?}");
        }
        lines
    }

    async fn until_told(&mut self, kind: &str) -> String {
        let id = self.id.clone();
        let lines = self.until(|line| line["event"]["type"] == kind && of(line) == id).await;
        lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Says something, and returns all that was told until the turn was over.
    async fn turn(&mut self, text: &str) -> String {
        self.send(&json!({"type": "message", "text": text})).await;
        self.until_told("session.idle").await
    }

    async fn end(mut self) {
        drop(self.stdin);
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap();
        assert_eq!(status.code(), Some(0));
    }
}

fn of(line: &Value) -> &str {
    line["event"]["properties"]["sessionID"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_a_tool_and_a_resume_with_context() {
    let Some(program) = installed("opencode") else { return };
    let (api, home) = (ModelApi::start().await, tempfile::tempdir().unwrap());
    let mut live = Live::start(&program, home.path(), &api, None).await;
    let id = live.id.clone();
    assert!(live.turn("@say first-thing").await.contains("first-thing"));
    assert!(live.turn("@sh echo made-by-a-tool").await.contains("made-by-a-tool"));
    live.end().await;
    let mut live = Live::start(&program, home.path(), &api, Some(&id)).await;
    assert_eq!(live.id, id);
    assert!(live.turn("@recall").await.contains("recalled: first-thing"));
    live.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_ends_a_tool_and_leaves_the_session_usable() {
    let Some(program) = installed("opencode") else { return };
    let (api, home, word) = (ModelApi::start().await, tempfile::tempdir().unwrap(), unique());
    let mut live = Live::start(&program, home.path(), &api, None).await;
    live.send(&json!({"type": "message", "text": format!("@sh sleep {word}")})).await;
    live.until(|line| line["event"]["properties"]["part"]["state"]["status"] == "running").await;
    live.send(&json!({"type": "status"})).await;
    let found = live.until(|line| line["type"] == "status").await;
    assert_eq!(found.last().unwrap()["working"], json!([live.id]));
    live.send(&json!({"type": "abort"})).await;
    live.until_told("session.idle").await;
    live.send(&json!({"type": "message", "text": "@stall"})).await;
    live.until(|line| line["event"]["properties"]["status"]["type"] == "busy").await;
    live.send(&json!({"type": "abort"})).await;
    live.until_told("session.idle").await;
    live.send(&json!({"type": "message", "text": "@say still-here"})).await;
    live.until(|line| line.to_string().contains("still-here") && line["event"]["type"] == "message.part.delta").await;
    live.end().await;
    assert_eq!(sleeping(&word), Vec::<i32>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_is_asked_for_and_the_end_leaves_no_tool_behind() {
    let Some(program) = installed("opencode") else { return };
    let (api, home, word) = (ModelApi::start().await, tempfile::tempdir().unwrap(), unique());
    let mut live = Live::start(&program, home.path(), &api, None).await;
    live.send(&json!({"type": "message", "text": "@sh touch it"})).await;
    live.until_told("permission.asked").await;
    live.send(&json!({"type": "abort"})).await;
    live.until_told("session.idle").await;
    assert!(!home.path().join("it").exists(), "nobody allowed it");
    live.send(&json!({"type": "clear"})).await;
    let ready = live.until(|line| line["type"] == "ready").await;
    live.id = ready.last().unwrap()["session_id"].as_str().unwrap().to_owned();
    live.send(&json!({"type": "message", "text": format!("@sh sleep {word}")})).await;
    live.until(|line| line["event"]["properties"]["part"]["state"]["status"] == "running").await;
    live.end().await;
    assert_eq!(sleeping(&word), Vec::<i32>::new());
}
