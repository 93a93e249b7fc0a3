//! The reason of a stop outlives the runner: however that went, and wherever the stop was at that moment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sexton::clock::{Clock, SystemClock};
use tempfile::TempDir;

use crate::support::daemon::{Daemon, home_of_a_past_life};
use crate::support::processes::{is_alive, kill, parent};
use crate::support::runner::{Engines, ended, tracked};

const DAY: i64 = 24 * 60 * 60 * 1_000;

/// How a runner goes.
#[derive(Debug, Clone, Copy)]
enum Leaves {
    Cleanly,
    Killed,
}

const BOTH: [Leaves; 2] = [Leaves::Cleanly, Leaves::Killed];

impl Leaves {
    async fn leave(self, daemon: Daemon) {
        match self {
            Self::Cleanly => daemon.leave().await,
            Self::Killed => daemon.kill(),
        }
    }
}

async fn until(what: &str, mut fits: impl FnMut() -> bool) {
    for _ in 0..4_000 {
        if fits() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never {what}");
}

/// An engine that tells when its input was closed, and then leaves only when it is let go.
struct Waiter {
    home: Arc<TempDir>,
    shim: i32,
    _engines: Engines,
}

impl Waiter {
    async fn start(graces: &str) -> (Self, Daemon) {
        let home = home_of_a_past_life().await;
        let engines = Engines(Some(Arc::clone(&home)));
        let mut daemon = Daemon::launch(home.path(), graces);
        daemon.answers().await;
        let folder = home.path().display().to_string();
        let script = format!(
            r#"trap '' TERM; echo '{{"type":"turn_started"}}'; echo '{{"type":"turn_ended"}}'
            while read -r line; do :; done
            touch {folder}/closed; while [ ! -e {folder}/go ]; do sleep 0.01; done"#
        );
        let pid = daemon.begin("s1", &script).await;
        daemon.until("idle", |list| tracked(list, "s1").is_some_and(|one| one["generating"] == false)).await;
        (Self { home, shim: parent(pid), _engines: engines }, daemon)
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("state/sessions/s1")
    }

    async fn is_told(&self) {
        let closed = self.home.path().join("closed");
        until("told that its input is closed", || closed.exists()).await;
    }

    fn let_go(&self) {
        std::fs::write(self.home.path().join("go"), "").unwrap();
    }

    /// Takes away the door of its shim, as one does that is at its last words.
    fn close_door(&self) {
        std::fs::remove_file(self.folder().join("s")).unwrap();
    }

    async fn until_its_shim_is_gone(&self) {
        until("gone", || !is_alive(self.shim)).await;
    }

    /// Leaves on disk what a runner leaves that died between writing a stop down and telling the shim.
    fn write_stop(&self, forced: bool) {
        let intent = json!({"generation": 1, "reason": "idle", "sweep_id": "sweep-1", "forced": forced});
        std::fs::write(self.folder().join("end.json"), intent.to_string()).unwrap();
    }
}

/// Asks for a stop as a worker does, whatever its age.
async fn stop(daemon: &Daemon, mode: &str) -> tokio::task::JoinHandle<reqwest::Result<reqwest::Response>> {
    let stamp = daemon.list().await["stamp"].clone();
    let limits = json!({"quiet_for_ms": 0, "awaiting_for_ms": DAY, "stalled_for_ms": DAY, "background_for_ms": DAY});
    let body = json!({"session_id": "s1", "generation": 1, "mode": mode, "reason": "idle", "sweep_id": "sweep-1",
                      "stamp": stamp, "limits": limits});
    tokio::spawn(daemon.post("end", &body).send())
}

async fn recorded(home: &Path) -> Value {
    let mut daemon = Daemon::launch(home, LONG);
    daemon.answers().await;
    ended_of(&daemon).await
}

async fn ended_of(daemon: &Daemon) -> Value {
    let is_over = |list: &Value| ended(list, "s1").is_some() && tracked(list, "s1").is_none();
    let list = daemon.until("recorded", |list| list["ready"] == true && is_over(list)).await;
    ended(&list, "s1").unwrap().clone()
}

/// Graces that no test waits for.
const LONG: &str = "stop = { stdin_grace = \"30s\" }\n";

#[track_caller]
fn assert_stopped(record: &Value, what: &str) {
    assert_eq!((&record["reason"], &record["sweep_id"]), (&json!("idle"), &json!("sweep-1")), "{what}: {record}");
    assert_eq!(record["stages"][0]["stage"], "stdin_closed", "{what}: {record}");
}

#[track_caller]
fn assert_left(record: &Value, what: &str) {
    assert_eq!((&record["reason"], &record["sweep_id"]), (&json!("exited"), &json!(null)), "{what}: {record}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_reached_its_shim_keeps_its_reason_also_if_the_next_runner_only_sees_it_leave() {
    for (leaves, mode) in BOTH.into_iter().flat_map(|leaves| [(leaves, "if_idle"), (leaves, "force")]) {
        let (engine, daemon) = Waiter::start(LONG).await;
        let asking = stop(&daemon, mode).await;
        engine.is_told().await;
        leaves.leave(daemon).await;
        assert!(asking.await.unwrap().is_err(), "nobody was told that it is stopped");
        engine.close_door();
        let mut daemon = Daemon::launch(engine.home.path(), LONG);
        daemon.answers().await;
        let list = daemon.ready().await;
        assert!(tracked(&list, "s1").is_some() && ended(&list, "s1").is_none(), "{list}");
        engine.let_go();
        assert_stopped(&ended_of(&daemon).await, &format!("{leaves:?} {mode}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_was_done_while_no_runner_was_there_keeps_its_reason() {
    for leaves in BOTH {
        let (engine, daemon) = Waiter::start(LONG).await;
        let _asking = stop(&daemon, "if_idle").await;
        engine.is_told().await;
        leaves.leave(daemon).await;
        engine.let_go();
        engine.until_its_shim_is_gone().await;
        assert_stopped(&recorded(engine.home.path()).await, &format!("{leaves:?}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_whose_shim_reads_it_only_after_the_runner_left_keeps_its_reason() {
    let (engine, daemon) = Waiter::start(LONG).await;
    kill(engine.shim, "STOP");
    let _asking = stop(&daemon, "if_idle").await;
    until("written down", || engine.folder().join("end.json").exists()).await;
    // A clean end leaves time for the order to be on its way.
    daemon.leave().await;
    let mut daemon = Daemon::launch(engine.home.path(), LONG);
    daemon.answers().await;
    daemon.ready().await;
    kill(engine.shim, "CONT");
    engine.is_told().await;
    engine.let_go();
    assert_stopped(&ended_of(&daemon).await, "read later");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_never_reached_its_shim_is_no_reason_for_an_engine_that_left_by_itself() {
    for forced in [false, true] {
        // It leaves while no runner is there.
        let (engine, daemon) = Waiter::start(LONG).await;
        daemon.kill();
        engine.write_stop(forced);
        kill_engine(&engine);
        engine.until_its_shim_is_gone().await;
        assert_left(&recorded(engine.home.path()).await, &format!("alone, forced: {forced}"));

        // It leaves while a runner is there that has not met its shim.
        let (engine, daemon) = Waiter::start(LONG).await;
        daemon.kill();
        engine.write_stop(forced);
        engine.close_door();
        let mut daemon = Daemon::launch(engine.home.path(), LONG);
        daemon.answers().await;
        daemon.ready().await;
        kill_engine(&engine);
        assert_left(&ended_of(&daemon).await, &format!("unmet, forced: {forced}"));
    }
}

/// Ends the engine as if it had left by itself: its shim was told nothing.
fn kill_engine(engine: &Waiter) {
    let engines = crate::support::processes::running(engine.home.path()).0;
    for pid in engines.into_values().flatten() {
        let _ = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_is_on_disk_is_not_written_anew_for_a_shim_that_is_still_there() {
    let (engine, daemon) = Waiter::start(LONG).await;
    let _asking = stop(&daemon, "if_idle").await;
    engine.is_told().await;
    daemon.kill();
    // As if the runner had died between the record and the clearing of the folder, and the shim were slow to go.
    let record = json!({
        "ended": {"session_id": "s1", "generation": 1, "reason": "awaiting_expired", "sweep_id": "sweep-7",
                  "ended_ago_ms": null, "exit": null, "stages": [], "freed_bytes": 7, "not_freed": [], "resume": null,
                  "detail": null, "containment": null},
        "at": SystemClock.now(), "elapsed": 0, "boot_id": "another", "forgotten": false,
        "owner_id": null, "engine_session_id": null,
    });
    std::fs::write(engine.home.path().join("state/ended/s1.1.json"), record.to_string()).unwrap();
    engine.close_door();
    engine.let_go();
    let told = recorded(engine.home.path()).await;
    assert_eq!((&told["reason"], &told["sweep_id"]), (&json!("awaiting_expired"), &json!("sweep-7")), "{told}");
    assert_eq!(told["freed_bytes"], 7);
}
