//! From start to reap with a real runner, real engines and nothing else.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli::house::{House, text, wait_for};

fn session(house: &House, id: &str) -> Value {
    let list = house.json(&["sessions", "--all", "--json"]);
    list["items"].as_array().unwrap().iter().find(|item| item["id"] == id).unwrap().clone()
}

#[test]
fn a_session_is_started_used_seen_kept_and_ended() {
    let house = House::with_engines("6h");
    let _runner = house.runner();
    let id = house.start("sample", "repo");
    let again = house.json(&["start", "sample", "--repo", text(&house.folder("repo")), "--json"]);
    assert_eq!((&again["opened"], &again["session"]["id"]), (&json!(false), &json!(id)));
    assert!(house.done(&["send", &id, "two\nlines"]).contains("took the message"));
    let row = session(&house, &id);
    assert_eq!((&row["status"], &row["last_activity_kind"]), (&json!("active"), &json!("message")));
    assert!(row["process"]["rss_bytes"].as_i64().unwrap() > 0 && row["process"]["pid"].as_i64().unwrap() > 0, "{row}");
    let table = house.done(&["sessions"]);
    assert!(table.contains(" MB") && table.contains("idle") && table.contains("1 session, "), "{table}");
    let runners = house.json(&["runners", "--json"]);
    assert_eq!((&runners["items"][0]["state"], &runners["items"][0]["engines"]), (&json!("live"), &json!(1)));
    assert_eq!(house.json(&["sweep", "--json"])["idle"]["reaped"], 0);
    assert!(house.done(&["explain", &id]).contains("It is kept: recently_active"));
    let held = house.refused(&["runners", "remove", "local"]);
    assert!(held.contains("holds 1 engine:") && held.contains("--force"), "{held}");
    assert_eq!(house.json(&["runners", "--json"])["items"][0]["id"], "local", "it is enrolled still");
    let told = house.done(&["end", &id[..id.len() - 1]]);
    assert!(told.starts_with(&format!("Session {id}: Ended by ann.")), "{told}");
    let row = session(&house, &id);
    assert_eq!(
        (&row["status"], &row["end_reason"], &row["process"]),
        (&json!("ended"), &json!("ended_by_person"), &Value::Null)
    );
    let entries = house.json(&["timeline", &id, "--json"]);
    let kinds: Vec<&Value> = entries["items"].as_array().unwrap().iter().map(|entry| &entry["kind"]).collect();
    assert_eq!(kinds, ["started", "ended"]);
    house.done(&["runners", "remove", "local"]);
    assert_eq!(house.call(&["end", &id]).code, 1, "what has ended cannot be handled, and that is no fault of the call");
}

#[test]
fn a_session_may_be_started_with_a_window_of_its_own() {
    let house = House::with_engines("6h");
    let _runner = house.runner();
    let repo = house.folder("repo");
    let start =
        |window: &str| house.call(&["start", "sample", "--repo", text(&repo), "--idle-after", window, "--json"]);
    assert_eq!(start("soon").code, 2);
    assert!(start("0s").err.contains("idle_after must be at least 1s"));
    let opened: Value = serde_json::from_str(&start("2h").out).unwrap();
    assert_eq!((&opened["opened"], &opened["session"]["idle_after_ms"]), (&json!(true), &json!(7_200_000)));
}

#[test]
fn an_idle_session_is_reaped_a_busy_one_is_kept_and_both_say_why() {
    let house = House::with_engines("1s");
    let _runner = house.runner();
    let (idle, busy) = (house.start("sample", "idle"), house.start("busy", "busy"));
    wait_for("the reap", || {
        let report = house.json(&["sweep", "--json"]);
        if report["idle"]["reaped"] == 1 { Ok(()) } else { Err(report) }
    });
    let told = house.done(&["timeline", &idle]);
    assert!(told.contains("Stopped after ") && told.contains("with no activity"), "{told}");
    assert!(house.done(&["explain", &idle]).contains("idle, nothing touched it for its idle window"));
    let kept = house.json(&["explain", &busy, "--json"]);
    assert_eq!((&kept["reaps"], &kept["process"]["background_tasks"]), (&json!(false), &json!(1)), "{kept}");
    let row = session(&house, &busy);
    assert_eq!((&row["status"], &row["state"]), (&json!("active"), &json!("background 1")));
    let report = house.json(&["sweep", "--json", "--dry-run"]);
    assert_eq!(report["runners"], json!([{"runner_id": "local", "state": "live", "why": null}]));
}

#[test]
fn an_engine_that_does_not_start_is_said_to_and_leaves_a_closed_row() {
    let house = House::with_engines("6h");
    let _runner = house.runner();
    let said = house.call(&["start", "broken", "--repo", text(&house.folder("repo"))]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("broken did not start on runner local") && said.err.contains("no licence"), "{said:?}");
    let rows = house.json(&["sessions", "--all", "--json"]);
    let reasons: Vec<&Value> = rows["items"].as_array().unwrap().iter().map(|row| &row["end_reason"]).collect();
    assert!(!reasons.is_empty() && reasons.iter().all(|reason| **reason == "start_failed"), "{rows}");
}

#[test]
fn a_runner_makes_its_secret_stops_cleanly_and_is_then_seen_as_offline() {
    let house = House::with_engines("6h");
    let mut runner = house.runner();
    let secret = house.path("state/sexton/runner.token");
    assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&secret).unwrap().trim().len(), 64);
    let id = house.start("sample", "repo");
    runner.signal(Signal::INT);
    assert_eq!(runner.ended(), Some(0));
    let report = house.json(&["sweep", "--json"]);
    assert_eq!(report["runners"][0]["state"], "offline", "{report}");
    let row = session(&house, &id);
    assert_eq!((&row["status"], &row["state"]), (&json!("active"), &json!("runner offline")));
    let said = house.call(&["send", &id, "hello"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(house.done(&["sessions"]).contains("runner offline"));
}

#[test]
fn up_starts_a_runner_once_and_leaves_it_running() {
    let house = House::with_engines("6h");
    let left_running = LeftRunning(&house);
    house.done(&["tokens", "create", "--owner", "me", "--scope", "read"]);
    let up = || {
        let daemon = house.daemon(&["up"]);
        wait_for("the runner that up starts", || {
            let list = house.json(&["runners", "--json"]);
            if list["items"][0]["state"] == "live" { Ok(()) } else { Err(list) }
        });
        wait_for("the token", || {
            std::fs::metadata(house.path("state/sexton/token")).map_err(|error| error.to_string())
        });
        daemon
    };
    let mut first = up();
    let token = house.path("state/sexton/token");
    assert_eq!(std::fs::metadata(&token).unwrap().permissions().mode() & 0o777, 0o600);
    let id = house.start("sample", "repo");
    first.signal(Signal::TERM);
    assert_eq!(first.ended(), Some(0));
    let (pid, secret) = (session(&house, &id)["process"]["pid"].clone(), std::fs::read(&token).unwrap());
    assert!(pid.is_i64(), "the engine outlives the worker");
    let runner = left_running.pid().expect("the runner outlives the worker");
    let environment = std::fs::read(format!("/proc/{runner}/environ")).unwrap();
    let told = environment.split(|byte| *byte == 0).any(|variable| variable == b"SEXTON_OWNER=me");
    assert!(told, "what has no owner is adopted by the same one on both sides");
    let mut second = up();
    second.signal(Signal::INT);
    assert_eq!(second.ended(), Some(0));
    assert_eq!(session(&house, &id)["process"]["pid"], pid, "the same runner holds the same engine");
    assert_eq!(std::fs::read(&token).unwrap(), secret);
    let log = std::fs::read_to_string(house.path("state/sexton/runner.log")).unwrap();
    assert_eq!(log.matches("the runner listens").count(), 1, "{log}");
}

/// Stops the runner that `up` leaves running, found by the lock of its state folder.
struct LeftRunning<'a>(&'a House);

impl LeftRunning<'_> {
    fn pid(&self) -> Option<i32> {
        let lock = self.0.path("state/sexton/runner/runner.lock").canonicalize().ok()?;
        let holds = |pid: &i32| {
            let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|open| open == lock)
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(holds)
    }
}

impl Drop for LeftRunning<'_> {
    fn drop(&mut self) {
        let Some(pid) = self.pid().and_then(rustix::process::Pid::from_raw) else { return };
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        wait_for("the end of the runner", || self.pid().map_or(Ok(()), Err));
    }
}
