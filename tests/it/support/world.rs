//! A worker's world for tests: a store in a folder of its own, a clock that moves when told to, and runners.

use std::sync::Arc;

use sexton::clock::{Clock, ManualClock};
use sexton::config::Config;
use sexton::entry::{Entry, EntryKind, NewEntry};
use sexton::metrics::Metrics;
use sexton::protocol::{EngineState, Told};
use sexton::report::{PartName, PartReport, SweepReport, Trigger};
use sexton::runner_client::{ClientSettings, HttpRunners};
use sexton::session::{Id, Runner, Session, Status};
use sexton::store::{EntryFilter, Inserted, Store};
use sexton::sweep::{Request, sweep};
use sexton::time::{HOUR, Ms, Span, UtcMs};
use sexton::tools::{CurrentConfig, Tools};
use sexton::verdict::Verdict;
use sqlx::{Connection, SqliteConnection};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::fake_runner::FakeRunner;

/// When every test begins.
pub(crate) const NOON: UtcMs = UtcMs(1_800_000_000_000);

/// Everything a sweep works with.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) clock: ManualClock,
    pub(crate) tools: Tools,
}

impl World {
    /// Makes a world with the shipped settings.
    pub(crate) async fn new() -> Self {
        Self::with(|_| ()).await
    }

    /// Makes a world with changed settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = store_url(&folder);
        Self::made(folder, &url, change).await
    }

    /// Makes a world on a store that another process made, at the time at which its world began.
    pub(crate) async fn on(url: &str) -> Self {
        Self::made(tempfile::tempdir().unwrap(), url, |_| ()).await
    }

    async fn made(folder: TempDir, url: &str, change: impl FnOnce(&mut Config)) -> Self {
        let clock = ManualClock::at(NOON);
        let store = Store::open(url).await.unwrap();
        let mut config = Config::defaults();
        change(&mut config);
        let tools = Tools {
            store,
            runners: Arc::new(client()),
            clock: Arc::new(clock.clone()),
            settings: CurrentConfig::new(config),
            metrics: Arc::new(Metrics::default()),
            worker_id: id("worker-1"),
        };
        Self { folder, clock, tools }
    }

    /// Returns tools of a second process on the same store.
    pub(crate) async fn second_process(&self) -> Tools {
        let store = Store::open(&store_url(&self.folder)).await.unwrap();
        Tools { store, worker_id: id("worker-2"), ..self.tools.clone() }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.tools.store
    }

    pub(crate) fn now(&self) -> UtcMs {
        self.clock.now()
    }

    /// Starts a scripted runner that speaks the protocol, on this world's clock, and enrols it.
    pub(crate) async fn runner(&self) -> FakeRunner {
        let runner = FakeRunner::with_clock(Arc::new(self.clock.clone())).await;
        self.enrol(&runner, "mac-mini").await;
        runner
    }

    /// Starts a scripted runner that someone else wrote, and enrols it.
    pub(crate) async fn foreign_runner(&self) -> FakeRunner {
        let runner = FakeRunner::with_clock(Arc::new(self.clock.clone())).await;
        runner.script().foreign = true;
        self.enrol(&runner, "mac-mini").await;
        runner
    }

    /// Enrols a runner under a name, which is the identity that it has to show.
    pub(crate) async fn enrol(&self, runner: &FakeRunner, name: &str) {
        let row = Runner { identity: Some(name.to_owned()), created_at: self.now(), ..runner.row(name) };
        self.store().add_runner(&row).await.unwrap();
    }

    /// Enrols a runner at a URL where nothing listens.
    pub(crate) async fn enrol_url(&self, name: &str, url: &str) {
        let row = Runner {
            id: id(name),
            url: url.to_owned(),
            token_file: None,
            created_at: self.now(),
            last_seen_at: None,
            epoch: None,
            protocol: None,
            state_id: None,
            identity: Some(name.to_owned()),
            require_conditional_stop: false,
        };
        self.store().add_runner(&row).await.unwrap();
    }

    /// Puts in a session that nothing has used for `idle`, after a change.
    pub(crate) async fn session(&self, name: &str, idle: Ms, change: impl FnOnce(&mut Session)) -> Session {
        let mut session = self.row(name, idle);
        change(&mut session);
        let entry = NewEntry {
            session_id: session.id.clone(),
            generation: session.generation,
            at: self.now(),
            kind: EntryKind::Started,
            actor: "test".to_owned(),
            reason: None,
            message: "Opened.".to_owned(),
            evidence: serde_json::json!({}),
            once: None,
            engine_gone: false,
        };
        assert_eq!(self.store().insert_started(&session, &[], &entry).await.unwrap(), Inserted::Done);
        session
    }

    /// Makes the row of an active session on `mac-mini` that nothing has used for `idle`.
    pub(crate) fn row(&self, name: &str, idle: Ms) -> Session {
        let used = self.now().minus(idle);
        let began = self.now().minus(idle.max(24 * HOUR));
        Session {
            id: id(name),
            runner_id: id("mac-mini"),
            owner_id: Some("me".to_owned()),
            repo: format!("/src/{name}"),
            engine: "claude".to_owned(),
            engine_session_id: None,
            status: Status::Active,
            generation: 1,
            reopened: 0,
            started_at: Some(began),
            attached_at: Some(began),
            updated_at: Some(began),
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

    /// Makes one whole pass.
    pub(crate) async fn sweep(&self) -> SweepReport {
        self.pass(Request::all(Trigger::Manual)).await
    }

    /// Says what one whole pass would do.
    pub(crate) async fn dry_run(&self) -> SweepReport {
        self.pass(Request { dry_run: true, ..Request::all(Trigger::Manual) }).await
    }

    /// Makes one pass of some parts.
    pub(crate) async fn sweep_only(&self, only: &[PartName]) -> SweepReport {
        self.pass(Request { only: only.to_vec(), ..Request::all(Trigger::Manual) }).await
    }

    async fn pass(&self, request: Request) -> SweepReport {
        let report = sweep(&self.tools, request, CancellationToken::new()).await.unwrap();
        assert_adds_up(&report);
        report
    }

    /// Makes one whole pass at the side, in this world's process.
    pub(crate) fn spawn_sweep(&self) -> JoinHandle<SweepReport> {
        spawn_sweep(&self.tools)
    }

    /// Puts in a session on `mac-mini` that nothing has used for `idle`, with an engine that says the same.
    pub(crate) async fn held(&self, runner: &FakeRunner, name: &str, idle: Ms) -> Session {
        let session = self.session(name, idle, |_| ()).await;
        runner.hold_engine(&session.id, session.generation, silent(idle));
        session
    }

    /// Replaces the client by one that gives a stop up after a fifth of a second.
    pub(crate) fn hurry(&mut self) {
        let settings = ClientSettings { end_timeout: Span(200), ..settings() };
        self.tools.runners = Arc::new(HttpRunners::new(&settings).unwrap());
    }

    /// Reads every row of every table, as one text.
    pub(crate) async fn dump(&self) -> String {
        let mut connection = self.connection().await;
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name";
        let tables: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap();
        let mut dump = String::new();
        for table in tables {
            let sql = format!("SELECT name FROM pragma_table_info('{table}')");
            let names: Vec<String> = rows(&mut connection, sql).await;
            let columns: Vec<String> = names.iter().map(|name| format!("quote(\"{name}\")")).collect();
            let sql = format!("SELECT {} FROM \"{table}\" ORDER BY 1", columns.join(" || ',' || "));
            for row in rows(&mut connection, sql).await {
                dump.push_str(&format!("{table}: {row}\n"));
            }
        }
        dump
    }

    /// Opens a connection to the store's file beside the store, as another program would.
    pub(crate) async fn connection(&self) -> SqliteConnection {
        SqliteConnection::connect(&store_url(&self.folder)).await.unwrap()
    }

    /// Lets every row be looked at again, as other limits do.
    pub(crate) async fn look_again(&self) {
        assert!(self.store().note_limits(Id::new().as_str()).await.unwrap());
    }

    /// Reads a session that must exist.
    pub(crate) async fn read(&self, session: &Session) -> Session {
        self.store().find_session(&session.id).await.unwrap().unwrap()
    }

    /// Returns the session's entries of one kind.
    pub(crate) async fn entries(&self, session: &Session, kind: EntryKind) -> Vec<Entry> {
        let filter = EntryFilter { session: Some(session.id.clone()), ..EntryFilter::default() };
        let entries = self.store().list_timeline(&filter).await.unwrap();
        entries.into_iter().filter(|entry| entry.kind == kind).collect()
    }
}

/// Checks that every part counts each thing it examined exactly once.
pub(crate) fn assert_adds_up(report: &SweepReport) {
    for (name, part) in &report.parts {
        let kept: u64 = part.kept.values().sum();
        assert_eq!(part.examined, part.reaped + kept, "{name}: {part:?}");
        assert!(part.errors.len() as u64 <= kept, "{name}: {part:?}");
    }
}

/// Returns how many were kept under a word.
pub(crate) fn kept(part: &PartReport, verdict: Verdict) -> u64 {
    part.kept.get(&verdict).copied().unwrap_or(0)
}

/// The state of an engine that does nothing and has been silent for so long.
pub(crate) fn silent(ms: Ms) -> EngineState {
    EngineState {
        generating: Told::Is(false),
        background_tasks: Told::Is(0),
        awaiting_input: Told::Is(false),
        idle_ms: Told::Is(ms),
        ..EngineState::default()
    }
}

/// A client with limits that a test can wait for.
pub(crate) fn client() -> HttpRunners {
    HttpRunners::new(&settings()).unwrap()
}

fn settings() -> ClientSettings {
    ClientSettings {
        connect_timeout: Span(1_000),
        timeout: Span(1_000),
        end_timeout: Span(1_000),
        send_timeout: Span(1_000),
        response_bytes: 1 << 20,
    }
}

/// Makes one whole pass at the side.
pub(crate) fn spawn_sweep(tools: &Tools) -> JoinHandle<SweepReport> {
    let tools = tools.clone();
    tokio::spawn(async move {
        let report = sweep(&tools, Request::all(Trigger::Manual), CancellationToken::new()).await.unwrap();
        assert_adds_up(&report);
        report
    })
}

async fn rows(connection: &mut SqliteConnection, sql: String) -> Vec<String> {
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(connection).await.unwrap()
}

pub(crate) fn id(text: &str) -> Id {
    text.parse().unwrap()
}

pub(crate) fn store_url(folder: &TempDir) -> String {
    format!("sqlite://{}/sexton.db", folder.path().display())
}
