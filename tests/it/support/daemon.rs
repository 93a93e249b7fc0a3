//! A runner in a process of its own, so that it can be killed.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::processes;
use crate::support::runner::{SECRET, TestRunner};

/// A runner process. It is killed when it is dropped, and its engines with it when the test failed.
pub(crate) struct Daemon {
    process: Child,
    pub(crate) base: String,
    client: reqwest::Client,
    home: PathBuf,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            processes::end_shims(&self.home);
        }
    }
}

impl Daemon {
    /// Runs `sexton runner` on the state that lies in `home`, and waits until it answers at all.
    pub(crate) async fn start(home: &tempfile::TempDir) -> Self {
        let mut daemon = Self::launch(home.path(), "");
        daemon.answers().await;
        daemon
    }

    /// Runs `sexton runner` with more settings, and does not wait for it.
    pub(crate) fn launch(home: &Path, more: &str) -> Self {
        let port = free_port();
        let config = home.join("config.toml");
        std::fs::write(&config, settings(home, port) + more).unwrap();
        let log = OpenOptions::new().create(true).append(true).open(log(home)).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_sexton"))
            .arg("--config")
            .arg(&config)
            .arg("runner")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { process, base: format!("http://127.0.0.1:{port}"), client, home: home.to_owned() }
    }

    /// Waits until it answers at all; what it says is the tests' business.
    pub(crate) async fn answers(&mut self) {
        for _ in 0..4_000 {
            if self.post("touch", &Value::Null).send().await.is_ok() {
                return;
            }
            assert!(self.process.try_wait().unwrap().is_none(), "the runner left: {}", said(&self.home));
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        panic!("the runner at {} does not answer: {}", self.base, said(&self.home));
    }

    /// Waits until it ends by itself, and returns whether it was content.
    pub(crate) async fn ends(&mut self) -> bool {
        for _ in 0..2_000 {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.success();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the runner does not end: {}", said(&self.home));
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap()
    }

    pub(crate) fn post(&self, verb: &str, body: &Value) -> reqwest::RequestBuilder {
        self.client.post(format!("{}/coding/{verb}", self.base)).bearer_auth(SECRET).json(body)
    }

    /// Posts a body, and returns status and answer.
    pub(crate) async fn tell(&self, verb: &str, body: &Value) -> (u16, Value) {
        let answer = self.post(verb, body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub(crate) fn request(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.get(format!("{}{path}", self.base)).bearer_auth(SECRET)
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.request(path).send().await.unwrap().json().await.unwrap()
    }

    pub(crate) async fn list(&self) -> Value {
        self.get("/coding/sessions?ask=abc").await
    }

    /// Asks again and again until the list is as it should be.
    pub(crate) async fn until(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..4_000 {
            let list = self.list().await;
            if fits(&list) {
                return list;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("never {what}: {}\n{}", self.list().await, said(&self.home));
    }

    pub(crate) async fn ready(&self) -> Value {
        self.until("ready", |list| list["ready"] == true).await
    }

    /// Starts a shell script as soon as the runner is ready, and returns its process.
    pub(crate) async fn begin(&self, id: &str, script: &str) -> i32 {
        loop {
            let (_, answer) = self.tell("start", &start(id, script)).await;
            if let Some(pid) = answer["session"]["pid"].as_i64() {
                return i32::try_from(pid).unwrap();
            }
            assert_eq!(answer["outcome"], "not_ready", "{answer}");
        }
    }

    pub(crate) async fn say(&self, id: &str, text: &str) -> (u16, Value) {
        self.tell("messages", &json!({"session_id": id, "generation": 1, "text": text})).await
    }

    pub(crate) async fn touch(&self, id: &str) -> (u16, Value) {
        self.tell("touch", &json!({"session_id": id, "generation": 1, "kind": "capture"})).await
    }

    pub(crate) async fn force(&self, id: &str) -> (u16, Value) {
        self.tell("end", &force(id)).await
    }

    /// Kills it with -9.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops it as a person does.
    pub(crate) async fn leave(mut self) {
        processes::kill(self.pid(), "TERM");
        assert!(self.ends().await, "{}", said(&self.home));
    }
}

pub(crate) fn start(id: &str, script: &str) -> Value {
    json!({"session_id": id, "generation": 1, "engine": "sh", "cwd": "/", "args": [script]})
}

pub(crate) fn force(id: &str) -> Value {
    json!({"session_id": id, "generation": 1, "mode": "force", "reason": "ended_by_person"})
}

/// Settings of a runner process that a [`TestRunner`] can follow on the same state.
fn settings(home: &Path, port: u16) -> String {
    let home = home.display();
    format!(
        "[runner]\nlisten = \"127.0.0.1:{port}\"\nid = \"runner-1\"\nstate_dir = \"{home}/state\"\n\
         token_file = \"{home}/secret\"\nstdin_grace = \"200ms\"\nengine_term_grace = \"200ms\"\n\
         tree_term_grace = \"200ms\"\n[engines.sh]\ncommand = [\"sh\", \"-c\"]\n"
    )
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn log(home: &Path) -> PathBuf {
    home.join("runner.log")
}

/// Returns what the runners of this home wrote to their logs.
pub(crate) fn said(home: &Path) -> String {
    std::fs::read_to_string(log(home)).unwrap_or_default()
}

/// Returns a home that a runner has used before, with what a client of a bare daemon needs.
pub(crate) async fn home_of_a_past_life() -> Arc<tempfile::TempDir> {
    TestRunner::start().await.stop().await
}
