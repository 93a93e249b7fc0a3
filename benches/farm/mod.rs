//! A store full of open sessions, a few of them idle, and runners that answer at once in a process of their own, so that
//! the figures are the worker's.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use sexton::cli::client_settings;
use sexton::clock::SystemClock;
use sexton::config::Config;
use sexton::metrics::Metrics;
use sexton::runner_client::HttpRunners;
use sexton::session::{Id, Runner, Session, Status};
use sexton::store::Store;
use sexton::time::{HOUR, MINUTE, UtcMs};
use sexton::tools::{CurrentConfig, Tools};

/// How many runners share the sessions: one answer stays well below the size that is read.
const RUNNERS: usize = 10;

/// Tells the child process that it is to be the runners.
const ROLE: &str = "SEXTON_BENCH_RUNNERS";

/// How many sessions there are when nothing is said, for the child process too.
const DEFAULT: &str = "SEXTON_BENCH_DEFAULT";

/// Runs `measure` against a farm of `default` sessions; in the child process, is the runners instead.
pub(crate) fn run<F: Future<Output = ()>>(default: usize, measure: impl FnOnce(Farm) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if std::env::var_os(ROLE).is_some() {
        runtime.block_on(be_the_runners(sessions(number(DEFAULT, default))));
        return;
    }
    runtime.block_on(async {
        let farm = Farm::new(sessions(default)).await;
        measure(farm).await;
    });
}

/// The store, and the runners behind it.
pub(crate) struct Farm {
    pub(crate) tools: Tools,
    /// How many open sessions it holds.
    pub(crate) sessions: usize,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Farm {
    async fn new(sessions: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ROLE, "1").env(DEFAULT, sessions.to_string()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let urls: Vec<String> = lines.take(RUNNERS).map(Result::unwrap).collect();
        let tools = tools(folder.path()).await;
        fill(&tools, &urls, sessions).await;
        Self { tools, sessions, child, _folder: folder }
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn sessions(default: usize) -> usize {
    number("SEXTON_BENCH_SESSIONS", default)
}

/// Every n-th session is idle.
fn nth() -> usize {
    100 / number("SEXTON_BENCH_IDLE_PERCENT", 1).clamp(1, 100)
}

fn session_id(number: usize) -> Id {
    format!("s{number:07}").parse().unwrap()
}

async fn tools(folder: &Path) -> Tools {
    let mut config = Config::defaults();
    config.safety.max_stops_per_runner = 0;
    let settings = client_settings(&config);
    Tools {
        store: Store::open(&format!("sqlite://{}/sexton.db", folder.display())).await.unwrap(),
        runners: Arc::new(HttpRunners::new(&settings).unwrap()),
        clock: Arc::new(SystemClock),
        settings: CurrentConfig::new(config),
        metrics: Arc::new(Metrics::default()),
        worker_id: Id::new(),
    }
}

async fn fill(tools: &Tools, urls: &[String], sessions: usize) {
    let now = tools.clock.now();
    for (at, url) in urls.iter().enumerate() {
        let id: Id = format!("runner-{at}").parse().unwrap();
        let runner = Runner {
            identity: Some(id.to_string()),
            id,
            url: url.clone(),
            token_file: None,
            created_at: now,
            last_seen_at: None,
            epoch: None,
            protocol: None,
            state_id: None,
            require_conditional_stop: false,
        };
        tools.store.add_runner(&runner).await.unwrap();
    }
    let rows: Vec<Session> = (0..sessions).map(|number| row(number, now)).collect();
    for chunk in rows.chunks(10_000) {
        tools.store.import_sessions(chunk, "me", |_| None).await.unwrap();
    }
}

fn row(number: usize, now: UtcMs) -> Session {
    let used = if number.is_multiple_of(nth()) { now.minus(7 * HOUR) } else { now.minus(10 * MINUTE) };
    let began = Some(now.minus(24 * HOUR));
    Session {
        id: session_id(number),
        runner_id: format!("runner-{}", number % RUNNERS).parse().unwrap(),
        owner_id: Some("me".to_owned()),
        repo: format!("/src/{number}"),
        engine: "claude".to_owned(),
        engine_session_id: None,
        status: Status::Active,
        generation: 1,
        reopened: 0,
        started_at: began,
        attached_at: began,
        updated_at: began,
        last_activity_at: Some(used),
        last_activity_kind: None,
        driver: None,
        driver_at: None,
        keep_until: None,
        keep_reason: None,
        idle_after_ms: None,
        next_check_at: None,
        ended_at: None,
        end_reason: None,
    }
}

/// Serves all runners until it is killed; prints their URLs.
async fn be_the_runners(sessions: usize) {
    for at in 0..RUNNERS {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("http://{}", listener.local_addr().unwrap());
        let app = Router::new()
            .route(sexton::protocol::path::SESSIONS, get(tracked))
            .route(sexton::protocol::path::END, post(end))
            .route(sexton::protocol::path::FORGET, post(forget))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state((at, sessions));
        tokio::spawn(axum::serve(listener, app).into_future());
    }
    std::future::pending::<()>().await;
}

fn origin(at: usize) -> Value {
    json!({"protocol": 1, "runner_id": format!("runner-{at}"), "epoch": 1, "ready": true})
}

fn with_origin(at: usize, mut body: Value) -> Json<Value> {
    body.as_object_mut().unwrap().extend(origin(at).as_object().unwrap().clone());
    Json(body)
}

#[derive(serde::Deserialize)]
struct Ask {
    ask: String,
}

async fn tracked(State((at, sessions)): State<(usize, usize)>, Query(query): Query<Ask>) -> Json<Value> {
    let engines: Vec<Value> = (0..sessions)
        .filter(|number| number % RUNNERS == at)
        .map(|number| {
            json!({"session_id": session_id(number), "generation": 1, "generating": false, "background_tasks": 0,
                   "awaiting_input": false, "idle_ms": if number.is_multiple_of(nth()) { 7 * HOUR } else { 10 * MINUTE }})
        })
        .collect();
    with_origin(at, json!({"ask": query.ask, "stamp": "1:1", "complete": true, "tracked": engines, "ended": []}))
}

async fn end(State((at, _)): State<(usize, usize)>, Json(body): Json<Value>) -> Json<Value> {
    let reason = &body["reason"];
    let answer = json!({"session_id": body["session_id"], "generation": body["generation"], "outcome": "stopped",
                        "reason": reason, "stages": [], "freed_bytes": 200_000_000, "not_freed": []});
    with_origin(at, answer)
}

async fn forget(State((at, _)): State<(usize, usize)>, Json(body): Json<Value>) -> Json<Value> {
    with_origin(at, json!({"session_id": body["session_id"], "generation": body["generation"]}))
}
