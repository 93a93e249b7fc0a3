//! The commands that look, and the first sweep, on a store without a runner.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};
use sexton::session::{Run, RunStatus};
use sexton::store::Store;
use sexton::time::UtcMs;

use crate::cli::house::{House, free_port, import_line, text};
use crate::support::rows::begin_run;

const HOUR: i64 = 3_600_000;

/// A house with three sessions of another system: one used just now, one of two hours ago, one that ended.
fn seeded() -> House {
    let house = House::new();
    let ended = json!({"status": "ended", "ended_at": 1_700_000_000_000_i64, "end_reason": "exited"});
    let lines = [
        import_line("fresh", 1_000, &json!({})),
        import_line("older", 2 * HOUR, &json!({"owner_id": "ann", "engine_session_id": "e-1"})),
        import_line("over", 0, &ended),
    ];
    let file = house.write("sessions.jsonl", lines.join("\n"));
    assert_eq!(house.done(&["sessions", "import", text(&file)]), "Imported 3 sessions.\n");
    house
}

fn ids(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[test]
fn a_fresh_install_needs_no_set_up() {
    let house = House::new();
    let out = house.done(&["sweep"]);
    assert!(out.starts_with("Reaped 0, kept 0, in "), "{out}");
    let store = house.path("state/sexton/sexton.db");
    assert_eq!(std::fs::metadata(&store).unwrap().permissions().mode() & 0o777, 0o600);
    for list in ["sessions", "timeline", "runners", "tokens"] {
        assert_eq!(house.json(&[list, "--json"]), json!({"items": [], "next": null}), "{list}");
        house.done(&[list]);
    }
    assert_eq!(house.json(&["sweeps", "--json"])["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_sweep_prints_one_object_with_the_promised_keys() {
    let report = House::new().json(&["sweep", "--json", "--only", "idle,strays"]);
    for key in ["sweep_id", "started_at", "elapsed_ms"] {
        assert!(!report[key].is_null(), "{key}: {report}");
    }
    assert_eq!(report["trigger"], "manual");
    assert_eq!((&report["dry_run"], &report["paused"], &report["runners"]), (&json!(false), &json!(false), &json!([])));
    for part in ["runs", "idle", "orphans", "strays"] {
        assert_eq!(report[part], json!({"examined": 0, "reaped": 0, "kept": {}, "errors": [], "items": []}), "{part}");
    }
}

#[test]
fn a_dry_run_leaves_no_trace() {
    let house = seeded();
    house.set_idle("1h");
    let report = house.json(&["sweep", "--json", "--dry-run"]);
    assert_eq!(report["dry_run"], json!(true));
    assert_eq!(house.json(&["sweeps", "--json"])["items"], json!([]));
    assert_eq!(ids(&house.json(&["sessions", "--json"])), ["fresh", "older"]);
}

#[test]
fn sessions_are_listed_open_ones_first_of_all() {
    let house = seeded();
    let open = house.json(&["sessions", "--json"]);
    assert_eq!(ids(&open), ["fresh", "older"]);
    let first = &open["items"][0];
    assert_eq!((&first["owner_id"], &first["state"]), (&json!("ann"), &json!("runner not enrolled")));
    assert_eq!((&first["process"], &open["next"]), (&Value::Null, &Value::Null));
    assert!(first["last_activity_at"].as_str().unwrap().ends_with('Z'), "{first}");
    assert_eq!(ids(&house.json(&["sessions", "--all", "--json"])), ["fresh", "older", "over"]);
    let page = house.json(&["sessions", "--json", "--limit", "1"]);
    assert_eq!((ids(&page), &page["next"]), (vec!["fresh"], &json!("fresh")));
    let table = house.done(&["sessions", "--all"]);
    assert!(table.contains("ended: exited") && table.contains("2 h ") && table.contains(" ago (capture)"), "{table}");
    assert!(!table.contains("OWNER"), "all are one's own: {table}");
}

#[test]
fn explain_answers_why_and_when() {
    let house = seeded();
    let kept = house.json(&["explain", "older", "--json"]);
    assert_eq!((&kept["verdict"], &kept["reaps"]), (&json!("recently_active"), &json!(false)));
    assert_eq!(kept["session"]["engine_session_id"], "e-1");
    let rule =
        kept["findings"].as_array().unwrap().iter().find(|finding| finding["rule"] == "recently_active").unwrap();
    assert_eq!((&rule["keeps"], &rule["limit_ms"]), (&json!(true), &json!(6 * HOUR)));
    assert!(rule["value_ms"].as_i64().unwrap() >= 2 * HOUR, "{rule}");
    let told = house.done(&["explain", "older"]);
    assert!(told.contains("It is kept: recently_active, something touched it within its idle window."), "{told}");
    assert!(told.contains("Runner mac is not enrolled."), "{told}");
    let told = house.done(&["explain", "over"]);
    assert!(told.contains("It ended at 2023-11-14 22:13:20 UTC: exited, the engine left by itself."), "{told}");
}

#[test]
fn the_next_pass_does_what_explain_says() {
    let house = seeded();
    house.set_idle("1h");
    let told = house.done(&["explain", "older"]);
    assert!(told.contains("The next pass ends it: machine_gone"), "{told}");
    // A machine that was booted a moment ago blames nobody for not being reached, so either word may come.
    let report = house.json(&["sweep", "--json"]);
    assert_eq!(report["idle"]["examined"], 1, "{report}");
    assert_eq!(report["idle"]["items"][0]["verdict"], "machine_gone");
    let entries = house.json(&["timeline", "older", "--json"]);
    let last = entries["items"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["kind"], &last["reason"]), (&json!("ended"), &json!("machine_gone")));
    assert!(last["message"].as_str().unwrap().contains("not stopped"), "{last}");
    assert!(house.done(&["explain", "older"]).contains("It ended at "));
}

#[test]
fn a_dry_run_counts_each_session_once() {
    let house = seeded();
    house.set_idle("1h");
    let told = house.done(&["sweep", "--dry-run"]);
    assert!(told.starts_with("Dry run: looked at 1 session, would end 1, keep 0, in "), "{told}");
}

const ONE: &str = "01a2aaaa0000000000000000000000e1";
const TWO: &str = "01a2bbbb0000000000000000000000e2";
const OVER: &str = "0fe0cccc0000000000000000000000e3";

/// Sessions that begin alike, one that ended and begins as others do not, and two that another system named.
fn alike() -> House {
    let house = House::new();
    let ended = json!({"status": "ended", "ended_at": 1_700_000_000_000_i64, "end_reason": "exited"});
    let lines = [
        import_line(ONE, 0, &json!({"repo": "/src/one"})),
        import_line(TWO, 0, &json!({"repo": "/src/two"})),
        import_line("01a2", 0, &json!({"repo": "/src/work"})),
        import_line("build-12", 0, &json!({})),
        import_line(OVER, 0, &ended),
    ];
    let file = house.write("sessions.jsonl", lines.join("\n"));
    house.done(&["sessions", "import", text(&file)]);
    house
}

#[test]
fn the_beginning_of_an_id_stands_for_the_only_session_that_has_it() {
    let house = alike();
    assert_eq!(house.json(&["explain", "01a2a", "--json"])["session"]["id"], ONE);
    assert_eq!(house.json(&["explain", "01a2", "--json"])["session"]["id"], "01a2", "an exact id goes first");
    assert_eq!(house.json(&["explain", "0fe0", "--json"])["session"]["id"], OVER);
    let kept = house.done(&["keep", "01a2b", "--for", "1h", "--because", "x"]);
    assert!(kept.starts_with(&format!("Session {TWO} is kept")), "{kept}");
    assert_eq!(house.json(&["timeline", "01a2b", "--json"])["items"][0]["session_id"], TWO);
    assert!(house.refused(&["explain", "0fe0d"]).contains("there is no session 0fe0d"));
}

/// `build-1` may have been a session once, and is not `build-12`.
#[test]
fn the_beginning_of_an_id_that_another_system_made_stands_for_nothing() {
    let house = alike();
    for args in [&["end", "build-1"][..], &["send", "build-1", "x"], &["explain", "build-1"]] {
        assert!(house.refused(args).contains("there is no session build-1"), "{args:?}");
    }
    assert_eq!(house.json(&["explain", "build-12", "--json"])["session"]["status"], "active");
}

#[test]
fn the_beginning_of_several_ids_is_none_of_them() {
    let house = House::new();
    let lines = [(ONE, "/src/one"), (TWO, "/src/two")].map(|(id, repo)| import_line(id, 0, &json!({"repo": repo})));
    let file = house.write("sessions.jsonl", lines.join("\n"));
    house.done(&["sessions", "import", text(&file)]);
    for args in [
        &["end", "01a2"][..],
        &["send", "01a2", "x"],
        &["attach", "01a2"],
        &["explain", "01a2"],
        &["timeline", "01a2"],
        &["runs", "01a2"],
        &["keep", "01a2", "--for", "1h", "--because", "x"],
    ] {
        let why = house.refused(args);
        assert!(why.contains(&format!("{ONE} (active in /src/one), {TWO} (active in /src/two)")), "{why}");
    }
    let why = house.refused(&["end", "01a"]);
    assert_eq!(why, "01a is too short for a session: write its id, or at least the first 4 of it");
    let open = house.json(&["sessions", "--json"]);
    assert_eq!(ids(&open), [ONE, TWO], "nothing was ended");
}

#[test]
fn whatever_is_asked_of_a_session_that_has_ended_is_not_done_and_says_why() {
    let house = alike();
    for args in [
        &["end", "0fe0"][..],
        &["send", "0fe0", "x"],
        &["attach", "0fe0"],
        &["keep", "0fe0", "--for", "1h", "--because", "x"],
    ] {
        let said = house.call(args);
        assert_eq!((said.code, said.err.lines().count()), (1, 1), "{args:?}: {said:?}");
        assert!(said.err.contains("has ended (exited)") && said.err.contains(OVER), "{args:?}: {said:?}");
    }
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_those_of_one_session_with_their_results() {
    let house = alike();
    let store = Store::open(&format!("sqlite://{}", text(&house.path("state/sexton/sexton.db")))).await.unwrap();
    for (name, session, at) in [("first", ONE, 1_000), ("then", TWO, 2_000)] {
        let run = Run {
            id: name.parse().unwrap(),
            session_id: session.parse().unwrap(),
            status: RunStatus::Succeeded,
            opened_session: false,
            started_at: UtcMs(at),
            heartbeat_at: None,
            finished_at: Some(UtcMs(at + 90_000)),
            stale_at: None,
            result: Some("all green".to_owned()),
        };
        begin_run(&store, &run).await;
    }
    assert_eq!(ids(&house.json(&["runs", "--json"])), ["then", "first"]);
    assert_eq!(ids(&house.json(&["runs", "--limit", "1", "--json"])), ["then"]);
    let told = house.done(&["runs"]);
    assert!(told.contains("1 min 30 s") && told.contains(TWO) && !told.contains("all green"), "{told}");
    let told = house.done(&["runs", "01a2a"]);
    assert!(told.contains("all green") && told.contains("first") && !told.contains("then"), "{told}");
}

#[test]
fn runs_are_none_before_a_host_begins_one() {
    let house = alike();
    assert!(house.done(&["runs"]).starts_with("There are no runs"));
    assert_eq!(house.json(&["runs", ONE, "--json"]), json!({"items": [], "next": null}));
    assert!(house.refused(&["runs", "nobody"]).contains("there is no session nobody"));
}

#[test]
fn a_paused_reaper_acts_on_nothing_and_says_so() {
    let house = seeded();
    house.set_idle("1h");
    house.done(&["pause", "--because", "moving house"]);
    let report = house.json(&["sweep", "--json"]);
    assert_eq!((&report["paused"], &report["idle"]["kept"]), (&json!(true), &json!({"paused": 1})), "{report}");
    assert!(house.done(&["explain", "older"]).contains("The reaper is paused"));
    let out = house.done(&["resume"]);
    assert!(out.contains("by ann since") && out.contains("moving house"), "{out}");
    assert_eq!(house.json(&["sweep", "--json"])["idle"]["reaped"], 1);
}

#[test]
fn keeping_is_on_record_with_its_reason() {
    let house = seeded();
    house.set_idle("1h");
    assert!(house.done(&["keep", "older", "--for", "12h", "--because", "demo at ten"]).contains("is kept for 12 h"));
    assert_eq!(house.json(&["explain", "older", "--json"])["verdict"], "kept_by_request");
    let told = house.done(&["timeline", "older"]);
    assert!(told.contains("kept") && told.contains("demo at ten"), "{told}");
}

#[test]
fn reading_the_timeline_of_one_session_is_a_use_of_it() {
    let house = seeded();
    let used = |id: &str| {
        let all = house.json(&["sessions", "--all", "--json"]);
        let row = all["items"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap().clone();
        (row["last_activity_kind"].clone(), row["last_activity_at"].clone())
    };
    let (fresh, over) = (used("fresh"), used("over"));
    house.json(&["timeline", "older", "--json"]);
    house.json(&["timeline", "over", "--json"]);
    house.json(&["timeline", "--json"]);
    house.json(&["explain", "fresh", "--json"]);
    assert_eq!(used("older").0, "timeline");
    assert_eq!(
        (used("fresh"), used("over")),
        (fresh, over),
        "no other reading is a use, and what is over is only read"
    );
}

#[test]
fn an_imported_session_says_where_it_comes_from() {
    let entries = seeded().json(&["timeline", "--json", "--limit", "2"]);
    let items = entries["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    assert!(items.iter().all(|entry| entry["kind"] == "imported" && entry["actor"] == "ann"), "{entries}");
}

#[test]
fn what_a_terminal_would_obey_is_shown_and_not_obeyed() {
    let house = House::new();
    let evil = "/src/\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}x";
    let file = house.write("evil.jsonl", import_line("evil", 2 * HOUR, &json!({"repo": evil, "engine": "\u{1b}[2J"})));
    house.done(&["sessions", "import", text(&file)]);
    house.done(&["keep", "evil", "--for", "1h", "--because", "\u{1b}[8mhidden"]);
    for args in [&["sessions"][..], &["explain", "evil"], &["timeline"], &["timeline", "evil"], &["sweep", "--dry-run"]]
    {
        // Calling it checks that nothing of it comes through.
        let out = house.done(args);
        assert!(out.contains("\\u{1b}") || args[0] == "sweep", "{args:?}: {out}");
    }
    let row = &house.json(&["sessions", "--json"])["items"][0];
    assert_eq!(row["repo"], evil, "programs get the data as it is");
}

#[test]
fn runners_are_enrolled_listed_and_removed() {
    let house = House::new();
    let url = format!("http://127.0.0.1:{}", free_port());
    house.write("secret", "s3cret");
    house.done(&["runners", "add", "mac", &format!("{url}/"), "--token-file", "secret", "--require-conditional-stop"]);
    let list = house.json(&["runners", "--json"]);
    let mac = &list["items"][0];
    assert_eq!((&mac["id"], &mac["url"], &mac["identity"]), (&json!("mac"), &json!(url), &json!("mac")));
    assert_eq!(mac["token_file"], json!(house.path("secret").canonicalize().unwrap()));
    assert_eq!((&mac["state"], &mac["require_conditional_stop"]), (&json!("offline"), &json!(true)));
    assert!(mac["why"].as_str().unwrap().contains("connection refused"), "{mac}");
    assert!(house.done(&["runners"]).contains("offline"));
    house.done(&["runners", "reset", "mac"]);
    assert_eq!(house.json(&["runners", "--json"])["items"][0]["identity"], Value::Null);
    house.done(&["runners", "remove", "mac"]);
    assert_eq!(house.json(&["runners", "--json"])["items"], json!([]));
}

#[test]
fn a_token_is_printed_once_and_kept_as_a_hash() {
    let house = House::new();
    let token = house.done(&["tokens", "create", "--owner", "ann", "--scope", "read,use"]);
    assert!(token.starts_with("sxt_") && token.lines().count() == 1, "{token}");
    let other = house.json(&["tokens", "create", "--owner", "ann", "--scope", "admin", "--json"]);
    assert!(other["token"].as_str().unwrap().starts_with("sxt_") && other.as_object().unwrap().len() == 1, "{other}");
    let list = house.json(&["tokens", "--json"]);
    assert_eq!(list["items"][0]["scope"], "read,use");
    assert!(!list.to_string().contains(token.trim()) && !house.done(&["tokens"]).contains(token.trim()));
    let id = list["items"][0]["id"].as_str().unwrap();
    house.done(&["tokens", "revoke", id]);
    assert!(!house.json(&["tokens", "--json"])["items"][0]["revoked_at"].is_null());
}

#[test]
fn the_settings_are_shown_without_secrets() {
    let house = House::new();
    house.configure("[engines.x]\ncommand = [\"x\"]\nenv = { KEY = \"hunter2\" }\n");
    let (text, value) = (house.done(&["config"]), house.json(&["config", "--json"]));
    assert!(text.starts_with("# Settings file: ") && text.contains("config/sexton/config.toml"), "{text}");
    assert!(text.contains("idle_after = \"6h\""), "{text}");
    assert_eq!(value["settings"]["policy"]["idle_after"], "6h");
    assert!(!text.contains("hunter2") && !value.to_string().contains("hunter2"));
    // What is printed could be a settings file.
    let file = house.write("again.toml", &text);
    house.done(&["config", "--config", self::text(&file)]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let house = seeded();
    let mut child = house.command(&["sessions"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

impl House {
    /// Sets the idle window; nobody is asked to wait for it, since the rows are old.
    fn set_idle(&self, idle_after: &str) {
        self.configure(&format!("[policy]\nidle_after = \"{idle_after}\"\n"));
    }
}
