//! A real runner in this process, on a state folder of its own, with the sample engines.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use serde_json::{Value, json};
use sexton::clock::{Clock, ManualClock, SystemClock};
use sexton::protocol::StopLimits;
use sexton::runner::settings::CgroupChoice;
use sexton::runner::{EngineSpec, OpenError, Runner, Settings, StopGraces, StreamLimits};
use sexton::time::{HOUR, MINUTE};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::processes;

pub(crate) const SECRET: &str = "a-secret-that-nobody-else-has";
pub(crate) const QUIET: i64 = 6 * HOUR;
pub(crate) const AWAITING: i64 = 24 * HOUR;
pub(crate) const STALLED: i64 = 30 * MINUTE;
pub(crate) const BACKGROUND: i64 = 24 * HOUR;

/// A runner under test.
pub(crate) struct TestRunner {
    pub(crate) home: Arc<tempfile::TempDir>,
    pub(crate) clock: ManualClock,
    pub(crate) base: String,
    client: reqwest::Client,
    runner: Option<Runner>,
    shutdown: CancellationToken,
    served: JoinHandle<std::io::Result<()>>,
    engines: Engines,
}

/// Ends what a test left behind, also one that failed.
pub(crate) struct Engines(pub(crate) Option<Arc<tempfile::TempDir>>);

impl Drop for Engines {
    fn drop(&mut self) {
        if let Some(home) = &self.0 {
            processes::end_shims(home.path());
        }
    }
}

/// Graces that keep tests short.
pub(crate) fn short() -> StopGraces {
    StopGraces { interrupt: 300, stdin: 300, engine: 300, tree: 200, kill: 5_000, linger: 200 }
}

pub(crate) fn settings(home: &Path, clock: Arc<dyn Clock>) -> Settings {
    let secret = home.join("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    Settings {
        runner_id: "runner-1".parse().unwrap(),
        state_dir: home.join("state"),
        secret_file: secret,
        program: PathBuf::from(env!("CARGO_BIN_EXE_sexton")),
        shim: vec![env!("CARGO_BIN_EXE_sexton-shim").to_owned()],
        engines: engines(home),
        graces: short(),
        start_settle: 150,
        stall_after: STALLED,
        interrupt_stalled: false,
        idle_after: None,
        limits: StopLimits {
            quiet_for_ms: QUIET,
            awaiting_for_ms: AWAITING,
            stalled_for_ms: STALLED,
            background_for_ms: BACKGROUND,
        },
        send_timeout: 30 * MINUTE,
        output_bytes: 64 << 20,
        segment_bytes: 16 << 20,
        output_kept: HOUR,
        heartbeat: 20,
        streams: StreamLimits::default(),
        cgroup: CgroupChoice::Off,
        owner: None,
        clock,
    }
}

fn engines(home: &Path) -> BTreeMap<String, EngineSpec> {
    let spec = |command: &[&str]| EngineSpec {
        command: command.iter().map(ToString::to_string).collect(),
        resume: vec!["resume-it".into(), "{engine_session_id}".into()],
        ..EngineSpec::default()
    };
    let sample = spec(&[env!("CARGO_BIN_EXE_sexton"), "sample-engine"]);
    // It is there and may be run, and yet cannot be.
    let gone = home.join("gone").display().to_string();
    std::fs::write(&gone, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&gone, Permissions::from_mode(0o755)).unwrap();
    let missing = spec(&["/no/such/program"]);
    let named = [("sample", sample), ("sh", spec(&["sh", "-c"])), ("missing", missing), ("gone", spec(&[&gone]))];
    named.into_iter().map(|(name, spec)| (name.to_owned(), spec)).collect()
}

impl TestRunner {
    /// Starts a runner in a new home.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Settings)) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        Self::open(home, change).await.expect("the state folder is fresh")
    }

    /// Starts a runner on the state that lies in `home`.
    pub(crate) async fn open(
        home: Arc<tempfile::TempDir>,
        change: impl FnOnce(&mut Settings),
    ) -> Result<Self, OpenError> {
        Self::open_at(home, ManualClock::at(SystemClock.now()), change).await
    }

    async fn open_at(
        home: Arc<tempfile::TempDir>,
        clock: ManualClock,
        change: impl FnOnce(&mut Settings),
    ) -> Result<Self, OpenError> {
        static TLS: Once = Once::new();
        // Whoever comes first in this process installs it: that may be the client under test.
        TLS.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let mut settings = settings(home.path(), Arc::new(clock.clone()));
        change(&mut settings);
        let runner = Runner::open(settings)?;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let served = tokio::spawn(sexton::runner::serve(runner.clone(), listener, shutdown.clone()));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let engines = Engines(Some(Arc::clone(&home)));
        let this = Self { home, clock, base, client, runner: Some(runner), shutdown, served, engines };
        this.until("ready", |list| list["ready"] == true).await;
        Ok(this)
    }

    /// Stops it for good, its engines first, and returns its home.
    pub(crate) async fn stop(self) -> Arc<tempfile::TempDir> {
        self.runner.as_ref().unwrap().stop_engines().await;
        self.leave().await
    }

    /// Stops it as a person does, and returns its home, where its engines go on.
    pub(crate) async fn leave(mut self) -> Arc<tempfile::TempDir> {
        self.runner = None;
        self.shutdown.cancel();
        self.served.await.unwrap().unwrap();
        self.engines.0 = None;
        // The last of its connections may be dropped a moment later, on another thread, and holds the folder until then.
        let lock = std::fs::File::options().write(true).open(self.home.path().join("state/runner.lock")).unwrap();
        for _ in 0..2_000 {
            if lock.try_lock().is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.home
    }

    /// Stops it as a person does, and starts the next one on its folder.
    pub(crate) async fn again(self) -> Self {
        self.again_with(|_| ()).await
    }

    pub(crate) async fn again_with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let (clock, home) = (self.clock.clone(), self.leave().await);
        Self::open_at(home, clock, change).await.unwrap()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    pub(crate) fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    /// Posts a body, and returns status and answer.
    pub(crate) async fn post(&self, verb: &str, body: Value) -> (u16, Value) {
        let request = self.request(reqwest::Method::POST, &format!("/coding/{verb}")).bearer_auth(SECRET).json(&body);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let request = self.request(reqwest::Method::GET, path).bearer_auth(SECRET);
        request.send().await.unwrap().json().await.unwrap()
    }

    pub(crate) async fn list(&self) -> Value {
        self.get("/coding/sessions?ask=abc").await
    }

    /// Asks again and again until the list is as it should be; there is nothing else to wait on from outside.
    pub(crate) async fn until(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..12_000 {
            let list = self.list().await;
            if fits(&list) {
                return list;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("never {what}: {}", self.list().await);
    }

    /// Asks until the tracked element of the session is as it should be.
    pub(crate) async fn until_tracked(&self, id: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let list = self.until(what, |list| tracked(list, id).is_some_and(&fits)).await;
        tracked(&list, id).unwrap().clone()
    }

    pub(crate) async fn begin(&self, id: &str, engine: &str, args: &[&str]) -> (u16, Value) {
        self.begin_as(id, 1, engine, args).await
    }

    pub(crate) async fn begin_as(&self, id: &str, generation: i64, engine: &str, args: &[&str]) -> (u16, Value) {
        let cwd = self.home.path();
        let body = json!({"session_id": id, "generation": generation, "engine": engine, "cwd": cwd, "args": args});
        self.post("start", body).await
    }

    /// Starts a sample engine, and returns its process.
    pub(crate) async fn sample(&self, id: &str, args: &[&str]) -> i32 {
        pid(&self.begin(id, "sample", args).await)
    }

    /// Starts a shell script, and returns its process.
    pub(crate) async fn script(&self, id: &str, script: &str) -> i32 {
        pid(&self.begin(id, "sh", &[script]).await)
    }

    /// Starts an engine that says what is appended to a file, so that it can speak of its own accord.
    pub(crate) async fn film(&self, id: &str) -> Film {
        let file = self.home.path().join(format!("{id}.film"));
        std::fs::write(&file, "").unwrap();
        self.script(id, &format!("exec tail -s 0.01 -n +1 -f '{}'", file.display())).await;
        Film(file)
    }

    pub(crate) async fn say(&self, id: &str, text: &str) -> (u16, Value) {
        self.post("messages", json!({"session_id": id, "generation": 1, "text": text})).await
    }

    pub(crate) async fn touch(&self, id: &str) -> (u16, Value) {
        self.post("touch", json!({"session_id": id, "generation": 1, "kind": "capture"})).await
    }

    pub(crate) async fn force(&self, id: &str, generation: i64) -> (u16, Value) {
        let body = json!({"session_id": id, "generation": generation, "mode": "force", "reason": "ended_by_person"});
        self.post("end", body).await
    }

    /// The body of a conditional stop by the default limits, with the stamp of this moment.
    pub(crate) async fn condition(&self, id: &str) -> Value {
        let stamp = self.list().await["stamp"].clone();
        json!({"session_id": id, "generation": 1, "mode": "if_idle", "reason": "idle", "sweep_id": "sweep-1",
               "stamp": stamp, "limits": {"quiet_for_ms": QUIET, "awaiting_for_ms": AWAITING,
               "stalled_for_ms": STALLED, "background_for_ms": BACKGROUND}})
    }

    pub(crate) async fn end_if_idle(&self, id: &str) -> (u16, Value) {
        let condition = self.condition(id).await;
        self.post("end", condition).await
    }
}

/// The lines of an engine that speaks of its own accord.
pub(crate) struct Film(PathBuf);

impl Film {
    /// Has the engine say some lines.
    pub(crate) fn says(&self, lines: &[&str]) {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().append(true).open(&self.0).unwrap();
        file.write_all(lines.iter().map(|line| format!("{line}\n")).collect::<String>().as_bytes()).unwrap();
    }
}

pub(crate) fn tracked<'a>(list: &'a Value, id: &str) -> Option<&'a Value> {
    list["tracked"].as_array().unwrap().iter().find(|one| one["session_id"] == id)
}

pub(crate) fn ended<'a>(list: &'a Value, id: &str) -> Option<&'a Value> {
    list["ended"].as_array().unwrap().iter().find(|one| one["session_id"] == id)
}

fn pid((status, answer): &(u16, Value)) -> i32 {
    assert_eq!(*status, 200, "{answer}");
    i32::try_from(answer["session"]["pid"].as_i64().unwrap()).unwrap()
}
