//! The bridge to OpenCode, with a server that these tests play themselves: what it says and does on every turn of events.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::support::processes::{is_alive, kill, sleeping, unique};

/// Long enough for a busy machine; nothing here waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(30);
/// `opencode:known` as the header wants it.
const KNOWN: &str = "Basic b3BlbmNvZGU6a25vd24=";

/// What the played server holds.
#[derive(Default)]
struct Played {
    calls: Vec<String>,
    working: BTreeMap<String, Value>,
    begun: usize,
    streams: Vec<mpsc::UnboundedSender<String>>,
}

type Shared = Arc<Mutex<Played>>;

/// A played server and a bridge that believes it started it.
struct World {
    played: Shared,
    bridge: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    /// A word in the command line of the process that stands for the server.
    word: String,
}

impl World {
    /// Starts both; the process that stands for the server runs `script`, in which `{}` is a word for `sleep`.
    async fn start(script: &str) -> Self {
        let (listener, played) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Shared::default());
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, routes(Arc::clone(&played))).into_future());
        let word = unique();
        let script = format!("echo 'opencode server listening on {url}'; {}", script.replace("{}", &word));
        let mut bridge = Command::new(env!("CARGO_BIN_EXE_sexton"))
            .args(["opencode-bridge", "--", "sh", "-c", &script])
            .env("OPENCODE_SERVER_PASSWORD", "known")
            .env("HTTP_PROXY", "http://127.0.0.1:1")
            .env_remove("OPENCODE_SERVER_USERNAME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdin, stdout) = (bridge.stdin.take(), bridge.stdout.take().unwrap());
        Self { played, bridge, stdin, stdout: BufReader::new(stdout).lines(), word }
    }

    /// Starts both and opens a session.
    async fn open(script: &str) -> Self {
        let mut world = Self::start(script).await;
        world.send(&json!({"type": "open"})).await;
        let ready = world.line().await;
        assert_eq!((&ready["type"], &ready["session_id"]), (&json!("ready"), &json!("ses_1")), "{ready}");
        world
    }

    async fn send(&mut self, command: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{command}\n").as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.stdout.next_line()).await.expect("a line").unwrap();
        serde_json::from_str(&line.expect("it still speaks")).unwrap()
    }

    /// Returns the lines up to the answer to a question, which proves that no others are on their way.
    async fn lines(&mut self) -> Vec<Value> {
        self.send(&json!({"type": "status"})).await;
        let mut lines = vec![self.line().await];
        while lines.last().unwrap()["type"] != "status" {
            lines.push(self.line().await);
        }
        lines
    }

    /// Lets the server tell an event, in every stream that is open.
    fn tell(&self, event: &Value) {
        self.played.lock().unwrap().streams.retain(|stream| stream.send(event.to_string()).is_ok());
    }

    fn calls(&self) -> Vec<String> {
        self.played.lock().unwrap().calls.clone()
    }

    /// Closes the bridge's input and waits for its end.
    async fn close(&mut self) {
        self.stdin.take();
        assert_eq!(self.code().await, Some(0));
    }

    /// Waits for the bridge's end, and returns its code.
    async fn code(&mut self) -> Option<i32> {
        tokio::time::timeout(PATIENCE, self.bridge.wait()).await.expect("it ends").unwrap().code()
    }

    /// Returns the last words of a bridge that ended and left nobody behind.
    async fn words(&mut self) -> String {
        let mut words = String::new();
        self.bridge.stderr.take().unwrap().read_to_string(&mut words).await.unwrap();
        words
    }
}

fn routes(played: Shared) -> Router {
    Router::new()
        .route("/session", post(begin))
        .route(
            "/session/status",
            get(|State(it): State<Shared>| async move { Json(it.lock().unwrap().working.clone()) }),
        )
        .route("/session/{id}", get(find))
        .route("/session/{id}/prompt_async", post(prompt))
        .route("/session/{id}/abort", post(abort))
        .route("/permission", get(|| async { Json(json!([{"id": "per_1", "sessionID": "ses_1"}])) }))
        .route("/question", get(|| async { Json(json!([])) }))
        .route("/event", get(events))
        .layer(axum::middleware::from_fn(guarded))
        .with_state(played)
}

async fn guarded(headers: HeaderMap, request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    if headers.get("authorization").is_some_and(|shown| shown == KNOWN) {
        next.run(request).await
    } else {
        StatusCode::UNAUTHORIZED.into_response()
    }
}

async fn begin(State(played): State<Shared>) -> Json<Value> {
    let mut played = played.lock().unwrap();
    played.begun += 1;
    Json(json!({"id": format!("ses_{}", played.begun), "title": "new"}))
}

async fn find(Path(id): Path<String>) -> Response {
    if id == "ses_old" { Json(json!({"id": id})).into_response() } else { StatusCode::NOT_FOUND.into_response() }
}

async fn prompt(State(played): State<Shared>, Path(id): Path<String>, Json(body): Json<Value>) -> StatusCode {
    let text = body["parts"][0]["text"].as_str().unwrap().to_owned();
    let status = if text == "bad" { StatusCode::BAD_REQUEST } else { StatusCode::NO_CONTENT };
    played.lock().unwrap().calls.push(format!("prompt {id} {text}"));
    status
}

async fn abort(State(played): State<Shared>, Path(id): Path<String>) -> Json<bool> {
    played.lock().unwrap().calls.push(format!("abort {id}"));
    Json(true)
}

async fn events(State(played): State<Shared>) -> Response {
    let (sender, receiver) = mpsc::unbounded_channel::<String>();
    played.lock().unwrap().streams.push(sender);
    let told = stream::unfold(receiver, |mut receiver| async move {
        let data = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(Event::default().data(data)), receiver))
    });
    Sse::new(told).into_response()
}

fn status(session: &str, word: &str) -> Value {
    json!({"type": "session.status", "properties": {"sessionID": session, "status": {"type": word}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_concerns_a_session_is_passed_on_and_nothing_else() {
    let mut world = World::open("exec sleep {}").await;
    world.send(&json!({"type": "message", "text": "one\ntwo"})).await;
    world.tell(&json!({"type": "server.heartbeat", "properties": {}}));
    world.tell(&status("ses_1", "busy"));
    world.tell(&json!({"type": "plugin.added", "properties": {"id": "x"}}));
    world.tell(&status("ses_2", "busy"));
    world.tell(&json!({"type": "session.error", "properties": {}}));
    let mut passed_on = Vec::new();
    for _ in 0..3 {
        let line = world.line().await;
        assert_eq!(line["type"], "event");
        passed_on.push(line["event"].clone());
    }
    let error = json!({"type": "session.error", "properties": {}});
    assert_eq!(passed_on, [status("ses_1", "busy"), status("ses_2", "busy"), error]);
    world.played.lock().unwrap().working.insert("ses_2".into(), json!({"type": "retry"}));
    assert_eq!(world.lines().await, [json!({"type": "status", "working": ["ses_2"]})]);
    assert_eq!(world.calls(), ["prompt ses_1 one\ntwo"]);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_taken_up_or_refused_but_never_replaced() {
    let mut world = World::start("exec sleep {}").await;
    world.send(&json!({"type": "open", "session_id": "ses_old"})).await;
    assert_eq!(world.line().await["session_id"], "ses_old");
    world.close().await;

    let mut world = World::start("exec sleep {}").await;
    world.send(&json!({"type": "open", "session_id": "ses_lost"})).await;
    let refused = world.line().await;
    assert_eq!((&refused["type"], &refused["command"]), (&json!("refused"), &json!("open")));
    let (code, words) = (world.code().await, world.words().await);
    assert!(code == Some(1) && words.contains("the session ses_lost cannot be taken up"), "{code:?} {words}");
    assert_eq!(world.played.lock().unwrap().begun, 0);
    assert_eq!(sleeping(&world.word), Vec::<i32>::new(), "the server went, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_stream_is_told_and_made_good() {
    let mut world = World::open("exec sleep {}").await;
    world.played.lock().unwrap().working.insert("ses_1".into(), json!({"type": "busy"}));
    world.played.lock().unwrap().streams.clear();
    assert_eq!(world.line().await["type"], "lost");
    let found = world.line().await;
    assert_eq!(found, json!({"type": "status", "working": ["ses_1"], "asking": {"per_1": "ses_1"}}));
    world.tell(&status("ses_1", "idle"));
    assert_eq!(world.line().await["event"], status("ses_1", "idle"));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_reach_the_server_and_refusals_come_back() {
    let mut world = World::open("exec sleep {}").await;
    for command in [
        json!({"type": "message", "text": "bad"}),
        json!({"type": "abort"}),
        json!({"type": "abort", "session_id": "ses_7"}),
        json!({"type": "abort", "session_id": "../../config"}),
        json!({"type": "clear"}),
    ] {
        world.send(&command).await;
    }
    world.stdin.as_mut().unwrap().write_all(b"no command\n\n{\"type\":\"news\"}\n").await.unwrap();
    let lines = world.lines().await;
    let told: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(told, ["refused", "refused", "ready", "status"], "{lines:?}");
    assert!(lines[0]["command"] == "message" && lines[0]["message"].as_str().unwrap().contains("400"));
    assert_eq!(lines[2]["session_id"], "ses_2");
    assert_eq!(world.calls(), ["prompt ses_1 bad", "abort ses_1", "abort ses_7", "abort ses_1"]);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_end_of_its_input_it_aborts_ends_the_server_and_leaves() {
    let mut world = World::open("exec sleep {}").await;
    for id in ["ses_1", "ses_2"] {
        world.played.lock().unwrap().working.insert(id.into(), json!({"type": "busy"}));
    }
    assert_eq!(sleeping(&world.word).len(), 1);
    world.close().await;
    assert_eq!(world.calls(), ["abort ses_1", "abort ses_2"]);
    assert_eq!(sleeping(&world.word), Vec::<i32>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sigterm_is_the_end_of_its_input() {
    let mut world = World::open("exec sleep {}").await;
    kill(i32::try_from(world.bridge.id().unwrap()).unwrap(), "TERM");
    assert_eq!(world.code().await, Some(0));
    assert_eq!(sleeping(&world.word), Vec::<i32>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_will_not_leave_is_left_to_the_shim() {
    let mut world = World::open("trap '' TERM; exec sleep {}").await;
    world.close().await;
    let left = sleeping(&world.word);
    assert!(left.len() == 1 && is_alive(left[0]), "the bridge kills nothing");
    kill(left[0], "KILL");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_ends_as_its_server_did() {
    for (script, code) in [("exit 7", 7), ("exit 0", 0), ("kill -9 $$", 137)] {
        let mut world = World::start(script).await;
        assert_eq!(world.code().await, Some(code), "{script}");
    }
    let missing = Command::new(env!("CARGO_BIN_EXE_sexton"))
        .args(["opencode-bridge", "--", "/no/such/program"])
        .stdin(Stdio::piped())
        .output()
        .await
        .unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/no/such/program"));
}
