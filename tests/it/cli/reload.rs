//! A worker that is told to read its settings again, in a process of its own.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli::house::{Daemon, House, SEXTON, free_port, wait_for};

const LOG: &str = "worker.log";

/// Settings with a pass each second, an idle window of hours, and a port for worker and runner each.
struct Settings {
    ports: (u16, u16),
}

impl Settings {
    fn new() -> Self {
        Self { ports: (free_port(), free_port()) }
    }

    /// Returns them with `rules` at the end.
    fn with(&self, rules: &str) -> String {
        let (server, runner) = self.ports;
        format!(
            "[server]\nlisten = \"127.0.0.1:{server}\"\n[runner]\nlisten = \"127.0.0.1:{runner}\"\nstdin_grace = \"2s\"\n\
             [schedule]\nsweep = \"* * * * * *\"\n[engines.sample]\ncommand = [{SEXTON:?}, \"sample-engine\", \"idle\"]\n\
             [policy]\nidle_after = \"6h\"\nactivity_throttle = \"250ms\"\ndriver_stale_after = \"1s\"\n{rules}"
        )
    }
}

const QUICK: &str = "[[policy.rule]]\nname = \"quick\"\nrepo = \"**/quick\"\nidle_after = \"1s\"\n";

fn log(house: &House) -> String {
    std::fs::read_to_string(house.path(LOG)).unwrap_or_default()
}

fn wait_for_log(house: &House, text: &str) {
    wait_for(text, || if log(house).contains(text) { Ok(()) } else { Err(log(house)) });
}

/// Lets the worker read its settings again, and waits until it says `text` about that.
fn reload(house: &House, worker: &Daemon, text: &str) {
    worker.signal(Signal::HUP);
    wait_for_log(house, text);
}

/// Waits until a session has ended, and returns the entry that says so. Lists are no use of it; its timeline would be.
fn wait_for_the_reap(house: &House, id: &str) -> Value {
    wait_for("the reap", || {
        let list = house.json(&["sessions", "--all", "--json"]);
        let row = list["items"].as_array().unwrap().iter().find(|row| row["id"] == id).cloned().unwrap();
        if row["status"] == "ended" { Ok(()) } else { Err(row) }
    });
    let entries = house.json(&["timeline", id, "--json"]);
    let items = entries["items"].as_array().unwrap();
    items.iter().find(|entry| entry["kind"] == "ended").cloned().unwrap()
}

#[test]
fn new_limits_hold_without_a_restart_and_a_bad_file_changes_nothing() {
    let (house, settings) = (House::new(), Settings::new());
    house.configure(&settings.with(""));
    let _runner = house.runner();
    let worker = house.logging_daemon(&["serve"], LOG);
    wait_for_log(&house, "the API is at");
    let (first, second) = (house.start("sample", "quick"), house.start("sample", "other"));
    assert!(house.done(&["explain", &first]).contains("It is kept: recently_active"));

    house.configure(&settings.with(QUICK));
    reload(&house, &worker, "the settings were read again; from the next pass on: policy.rule");
    let entry = wait_for_the_reap(&house, &first);
    let evidence = &entry["evidence"];
    assert_eq!((&evidence["policy_rule"], &evidence["limit_ms"]), (&json!("quick"), &json!(1_000)), "{entry}");
    let told = house.done(&["explain", &second]);
    assert!(told.contains("It is kept: recently_active") && !told.contains("from the rule"), "{told}");

    house.configure(&settings.with("[[policy.rule]]\nidle_afer = \"9h\"\n"));
    reload(&house, &worker, "cannot be used, so the old ones still hold");
    let told = log(&house);
    assert!(told.contains("unknown field `idle_afer`") && told.contains("^^^^^^^^^"), "{told}");
    house.configure(&settings.with("[[policy.rule]]\nname = \"all\"\nidle_after = \"500ms\"\n"));
    reload(&house, &worker, "policy.rule \"all\".idle_after is 500ms");
    // The old ones hold: the rule is still there, and what it does not match is still kept.
    house.configure(&settings.with(QUICK));
    let third = house.start("sample", "quick");
    assert_eq!(wait_for_the_reap(&house, &third)["evidence"]["policy_rule"], "quick");
    assert!(house.done(&["explain", &second]).contains("It is kept: recently_active"));

    house.configure(&settings.with(&format!("{QUICK}[log]\nfilter = \"debug\"\n")));
    reload(&house, &worker, "take effect only at a restart: log.filter");
    drop(worker);
    assert!(!log(&house).contains("panicked"), "{}", log(&house));
}
