//! What `sexton doctor` tells about a set-up, good and bad.

use rustix::process::Signal;
use serde_json::Value;

use crate::cli::house::{House, import_line, text};

/// Asks the doctor, who may have found problems of the machine that the test runs on.
fn findings(house: &House) -> (i32, Value) {
    let said = house.call(&["doctor", "--json"]);
    assert!(said.code <= 1 && said.err.is_empty(), "{said:?}");
    (said.code, serde_json::from_str(&said.out).unwrap())
}

/// Returns what one check says, as `level: sentence`.
fn said(found: &Value, check: &str) -> Vec<String> {
    let all = found["findings"].as_array().unwrap().iter().filter(|one| one["check"] == check);
    all.map(|one| format!("{}: {}", one["level"].as_str().unwrap(), one["message"].as_str().unwrap())).collect()
}

#[test]
fn a_fresh_home_has_no_problem_and_stays_as_it_is() {
    let house = House::new();
    let told = house.done(&["doctor"]);
    assert!(told.contains("There is no store yet") && told.contains("0 problems"), "{told}");
    assert!(!house.path("state").exists(), "looking makes nothing");
    let (code, found) = findings(&house);
    assert_eq!((code, found["problems"].as_i64()), (0, Some(0)), "{found}");
    assert!(said(&found, "engines")[0].starts_with("warning: No engine can be started here"), "{found}");
}

#[test]
fn settings_that_nothing_can_run_with_are_the_finding() {
    let house = House::new();
    house.configure("[policy]\nidle_aftre = \"2h\"\n");
    let told = house.call(&["doctor"]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.out.contains("config.toml: line 2, column 1") && told.out.contains("^^^^^^^^^^"), "{told:?}");
    let (code, found) = findings(&house);
    assert_eq!((code, found["findings"].as_array().unwrap().len()), (1, 1));
}

#[test]
fn a_log_filter_that_stops_every_other_command_is_told() {
    let mut house = House::new();
    house.set("SEXTON_LOG__FILTER", "verbose");
    assert!(house.refused(&["sessions"]).starts_with("log.filter: \"verbose\" is neither a level"));
    let (code, found) = findings(&house);
    assert!(
        code == 1 && said(&found, "settings")[0].starts_with("problem: No other command runs: log.filter: "),
        "{found}"
    );
}

#[test]
fn a_runner_that_answers_is_well_and_one_that_stopped_is_a_problem() {
    let house = House::with_engines("6h");
    let mut runner = house.runner();
    house.start("sample", "repo");
    let (_, found) = findings(&house);
    let runners = said(&found, "runners");
    assert!(runners.len() == 1 && runners[0].starts_with("ok: Runner local answers at http://127.0.0.1:"), "{found}");
    assert!(runners[0].contains("holds 1 engine."), "{found}");
    assert!(said(&found, "store")[0].contains("1 of them open"), "{found}");
    assert!(said(&found, "engines").iter().any(|one| one.contains("started here: broken, busy, sample")), "{found}");
    assert_eq!(said(&found, "disk").iter().filter(|one| one.contains("the runner's records")).count(), 1, "{found}");
    assert!(!said(&found, "logout").is_empty(), "{found}");
    runner.signal(Signal::TERM);
    assert_eq!(runner.ended(), Some(0));
    let (code, found) = findings(&house);
    let runners = said(&found, "runners");
    assert!(code == 1 && runners[0].contains("connection refused; start it with `sexton runner`"), "{found}");
}

#[test]
fn what_is_missing_or_held_back_is_told() {
    let house = House::new();
    house.configure("[engines.mine]\ncommand = [\"/no/such/program\"]\n");
    let file = house.write("sessions.jsonl", import_line("a", 0, &serde_json::json!({})));
    house.done(&["sessions", "import", text(&file)]);
    house.done(&["pause", "--because", "demo"]);
    let (code, found) = findings(&house);
    assert_eq!(code, 1);
    assert!(
        said(&found, "engines")[0].starts_with("problem: Engine mine cannot be started: its program /no/such"),
        "{found}"
    );
    let schedule = said(&found, "schedule");
    assert!(
        schedule[0].starts_with("warning: The reaper is paused by ann since ") && schedule[0].contains(": demo"),
        "{found}"
    );
    assert!(schedule[1].starts_with("warning: Nothing looks after 1 open session: there was no pass yet"), "{found}");
    assert!(said(&found, "runners")[0].starts_with("warning: No runner is enrolled"), "{found}");
}

#[test]
fn a_store_that_cannot_be_used_does_not_hide_the_rest() {
    let house = House::new();
    house.write("state/sexton/sexton.db", "no database at all, but a text of some length");
    let (code, found) = findings(&house);
    assert_eq!(code, 1);
    assert!(said(&found, "store")[0].starts_with("problem: the store "), "{found}");
    assert!(!said(&found, "disk").is_empty() && !said(&found, "engines").is_empty(), "{found}");
}
