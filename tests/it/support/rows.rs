//! Rows to begin with, each a baseline that a test changes in one place.

use serde_json::json;
use sexton::entry::{EntryKind, NewEntry};
use sexton::session::{ActivityKind, Id, Run, RunStatus, Runner, Session, Status};
use sexton::store::{Begun, Inserted, RunBegun, Store, SweepItem};
use sexton::time::UtcMs;
use sqlx::{Connection, SqliteConnection};
use tempfile::TempDir;

/// A point in time to count from.
pub(crate) const NOON: UtcMs = UtcMs(1_800_000_000_000);

pub(crate) fn id(text: &str) -> Id {
    text.parse().unwrap()
}

/// A new store in a folder of its own.
pub(crate) async fn new_store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&url_in(&folder)).await.unwrap();
    (folder, store)
}

pub(crate) fn url_in(folder: &TempDir) -> String {
    format!("sqlite://{}/sexton.db", folder.path().display())
}

/// An active session, last used at noon, alone in its repo.
pub(crate) fn session(name: &str) -> Session {
    Session {
        id: id(name),
        runner_id: id("mac"),
        owner_id: Some("ann".to_owned()),
        repo: format!("/src/{name}"),
        engine: "claude".to_owned(),
        engine_session_id: None,
        status: Status::Active,
        generation: 1,
        reopened: 0,
        started_at: Some(NOON),
        attached_at: Some(NOON),
        updated_at: Some(NOON),
        last_activity_at: Some(NOON),
        last_activity_kind: Some(ActivityKind::Start),
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

pub(crate) fn entry(session: &Session, kind: EntryKind, at: UtcMs) -> NewEntry {
    NewEntry {
        session_id: session.id.clone(),
        generation: session.generation,
        at,
        kind,
        actor: "sweep".to_owned(),
        reason: None,
        message: format!("It was {kind}."),
        evidence: json!({"generation": session.generation}),
        once: None,
        engine_gone: false,
    }
}

pub(crate) fn item(session: &Session, sweep: &str, at: UtcMs) -> SweepItem {
    SweepItem {
        sweep_id: id(sweep),
        trigger: "schedule".to_owned(),
        session_id: session.id.clone(),
        part: "idle".to_owned(),
        verdict: "idle".to_owned(),
        action: "stopped".to_owned(),
        message: "Stopped.".to_owned(),
        at,
    }
}

pub(crate) fn run(name: &str, session: &Session) -> Run {
    Run {
        id: id(name),
        session_id: session.id.clone(),
        status: RunStatus::Running,
        opened_session: true,
        started_at: NOON,
        heartbeat_at: None,
        finished_at: None,
        stale_at: None,
        result: None,
    }
}

pub(crate) fn runner(name: &str) -> Runner {
    Runner {
        id: id(name),
        url: "http://127.0.0.1:7118".to_owned(),
        token_file: None,
        created_at: NOON,
        last_seen_at: None,
        epoch: None,
        protocol: None,
        state_id: None,
        identity: None,
        require_conditional_stop: false,
    }
}

/// Begins the next start of a row on a runner, and tells of it, as a resume does.
pub(crate) async fn begin(store: &Store, read: &Session, runner: &Id, at: UtcMs) -> Begun {
    store.begin_and_tell(read, runner, &entry(read, EntryKind::Started, at)).await.unwrap()
}

/// Inserts a row with its start entry.
pub(crate) async fn insert(store: &Store, session: &Session) {
    let start = entry(session, EntryKind::Started, NOON);
    assert_eq!(store.insert_started(session, &[], &start).await.unwrap(), Inserted::Done);
}

/// Begins a run, which no other has the id of, and tells of it.
pub(crate) async fn begin_run(store: &Store, run: &Run) {
    let session = store.find_session(&run.session_id).await.unwrap().unwrap();
    let told = entry(&session, EntryKind::RunStarted, run.started_at);
    assert_eq!(store.begin_run(run, &told).await.unwrap(), RunBegun::Done);
}

/// Keeps an open session by request, and tells of it.
pub(crate) async fn keep(store: &Store, session: &Session, until: UtcMs, at: UtcMs) {
    let told = entry(session, EntryKind::Kept, at);
    assert!(store.keep_and_tell(&session.id, (until, "lunch"), at, &told).await.unwrap());
}

/// Reads what a sweep did, in the order in which it did it.
pub(crate) async fn items(store: &Store, sweep: &Id) -> Vec<SweepItem> {
    type Row = (String, String, String, String, String, String, i64);
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", store.name())).await.unwrap();
    let sql = "SELECT \"trigger\", session_id, part, verdict, action, message, at
               FROM sweep_items JOIN sweeps ON sweeps.id = sweep_id WHERE sweep_id = $1 ORDER BY at, session_id";
    let rows: Vec<Row> = sqlx::query_as(sql).bind(sweep.as_str()).fetch_all(&mut connection).await.unwrap();
    let item = |(trigger, session_id, part, verdict, action, message, at): Row| {
        let (sweep_id, session_id) = (sweep.clone(), id(&session_id));
        SweepItem { sweep_id, trigger, session_id, part, verdict, action, message, at: UtcMs(at) }
    };
    rows.into_iter().map(item).collect()
}

/// Reads a row that must be there.
pub(crate) async fn read(store: &Store, session: &Session) -> Session {
    store.find_session(&session.id).await.unwrap().unwrap()
}
