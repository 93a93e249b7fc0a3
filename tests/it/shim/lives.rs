//! A shim's life: it outlives who speaks with it, and leaves when it has nothing to hold.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::shim::driver::{House, script, sigkill, until};
use crate::support::processes;

const ECHO: &str = "while read -r line; do echo \"got $line\"; done";

#[test]
fn an_engine_outlives_the_connection_and_the_next_one_learns_everything() {
    let mut house = House::new();
    let (mut first, engine) = house.start(&script(ECHO));
    let note = json!({"offset": 3, "state": "half a turn"});
    let once = json!({"once": "message", "id": "m-1"});
    assert_eq!(first.write(1, "one\n", &json!({"once": once, "note": note})), "written");
    first.grown_to(8);
    drop(first);
    let (mut second, hello) = house.meet();
    assert_eq!((&hello["note"], &hello["head"], &hello["version"]), (&note, &json!(8), &json!(1)));
    assert_eq!(hello["engine"]["pid"], engine);
    assert!(hello["output_at"].is_i64() && hello["input_at"].is_i64() && hello["errors_at"].is_null());
    assert_eq!(second.write(1, "one\n", &json!({"once": once})), "again");
    assert_eq!(second.write(2, "two\n", &json!({})), "written");
    second.grown_to(16);
    assert_eq!(house.output(), b"got one\ngot two\n");
    let gone = second.stop();
    assert_eq!((&gone["head"], &gone["exit"]["code"]), (&json!(16), &json!(0)));
    house.wait_for_its_end();
    let kept: Value = serde_json::from_slice(&fs::read(house.file("exit.json")).unwrap()).unwrap();
    assert_eq!((&kept["head"], &kept["stages"]), (&json!(16), &gone["stages"]));
    assert!(!house.file("s").exists());
}

#[test]
fn the_program_that_starts_it_is_nobodys_parent() {
    let mut house = House::new();
    let (mut line, engine) = house.start(&script(ECHO));
    let shim = house.shim.unwrap();
    assert_ne!(processes::parent(shim), i32::try_from(std::process::id()).unwrap());
    assert_eq!(processes::parent(engine), shim);
    let record: Value = serde_json::from_slice(&fs::read(house.file("shim.json")).unwrap()).unwrap();
    assert_eq!((&record["shim"]["pid"], &record["engine"]["pid"]), (&json!(shim), &json!(engine)));
    line.stop();
}

#[test]
fn a_newer_connection_takes_the_place_of_the_older_one() {
    let mut house = House::new();
    let (mut first, _) = house.start(&script(ECHO));
    first.order("write", &json!({"seq": 1, "text": "last words\n"}));
    let (mut second, _) = house.meet();
    until("the older one ends", || first.next().is_none().then_some(()));
    assert_eq!(second.write(1, "and on\n", &json!({})), "written");
    second.stop();
    assert_eq!(house.output(), b"got last words\ngot and on\n");
}

#[test]
fn what_it_does_not_know_is_passed_over() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script(ECHO));
    line.say("{\"order\":\"sing\",\"song\":1}\nnot even json\n\n");
    assert_eq!(line.write(7, "still there\n", &json!({"tune": "new"})), "written");
    line.stop();
}

#[test]
fn an_engine_that_does_not_start_leaves_nothing() {
    let mut house = House::new();
    let (mut line, _) = house.meet();
    let mut spec = script("");
    spec["command"] = json!(["/no/such/program"]);
    line.order("start", &spec);
    let why = line.news("not_started")["why"].as_str().unwrap().to_owned();
    assert!(why.contains("/no/such/program"), "{why}");
    house.wait_for_its_end();
    assert!(!house.file("exit.json").exists() && !house.file("shim.json").exists());
}

#[test]
fn a_socket_that_was_removed_comes_back() {
    let mut house = House::new();
    let (mut line, engine) = house.start(&script(ECHO));
    fs::remove_file(house.file("s")).unwrap();
    assert_eq!(line.write(1, "still here\n", &json!({})), "written");
    let (mut next, hello) = house.meet();
    assert_eq!(hello["engine"]["pid"], engine);
    next.stop();
}

#[test]
fn a_second_shim_in_the_folder_goes_away() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script(ECHO));
    let second = Command::new(env!("CARGO_BIN_EXE_sexton-shim")).arg("--held").arg(house.path()).status().unwrap();
    assert!(!second.success());
    assert_eq!(line.write(1, "undisturbed\n", &json!({})), "written");
    line.stop();
}

#[test]
fn a_folder_whose_engine_has_ended_gets_no_shim() {
    let house = House::empty();
    fs::write(house.file("exit.json"), "{}").unwrap();
    let shim = Command::new(env!("CARGO_BIN_EXE_sexton-shim")).arg("--held").arg(house.path()).status().unwrap();
    assert!(!shim.success() && !house.file("s").exists());
}

#[test]
fn without_an_engine_it_leaves_with_its_caller() {
    for leaves in [true, false] {
        let mut house = House::new();
        let (mut line, _) = house.meet();
        if leaves {
            line.order("leave", &json!({}));
            assert_eq!(line.next(), None);
        }
        drop(line);
        house.wait_for_its_end();
        assert!(!house.file("exit.json").exists() && !house.file("shim.json").exists() && !house.file("s").exists());
    }
}

#[test]
fn with_an_engine_it_does_not_leave() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script(ECHO));
    line.order("leave", &json!({}));
    assert_eq!(line.write(1, "still here\n", &json!({})), "written");
    line.stop();
}

#[test]
fn a_shim_to_which_nobody_speaks_leaves() {
    let house = House::empty();
    let mut shim = Command::new(env!("CARGO_BIN_EXE_sexton-shim")).arg("--held").arg(house.path()).spawn().unwrap();
    assert!(shim.wait().unwrap().success());
    assert!(!house.file("exit.json").exists() && !house.file("s").exists());
}

#[test]
fn an_engine_dies_with_its_shim() {
    let mut house = House::new();
    let (mut line, engine) = house.start(&script("trap '' TERM; echo up; while :; do sleep 0.02; done"));
    line.grown_to(3);
    sigkill(house.shim.unwrap());
    until("the engine is gone", || (!processes::is_alive(engine)).then_some(()));
}

#[test]
fn the_sexton_program_is_a_shim_too() {
    let mut house = House::empty();
    let started = Command::new(env!("CARGO_BIN_EXE_sexton")).arg("shim").arg(house.path()).status().unwrap();
    assert!(started.success());
    let (mut line, _) = house.start(&script(ECHO));
    assert_eq!(line.write(1, "hello\n", &json!({})), "written");
    line.stop();
}

#[test]
fn an_engine_gets_three_pipes_and_a_clean_start() {
    let mut house = House::new();
    let (mut line, engine) = house.start(&script("exec cat"));
    until("it runs its program", || processes::visible(engine).ends_with("cat\n").then_some(()));
    let inherited = open_files(i32::try_from(std::process::id()).unwrap());
    let mut its = open_files(engine);
    // What this test was handed by whoever runs it is nothing that the shim opened.
    its.retain(|file| !inherited.contains(file));
    assert!(its.len() == 3 && its.iter().all(|file| file.starts_with("pipe:")), "{its:?}");
    let status = fs::read_to_string(format!("/proc/{engine}/status")).unwrap();
    let mask = |name: &str| {
        let bits = status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        u64::from_str_radix(bits, 16).unwrap()
    };
    const SIGPIPE: u64 = 1 << 12;
    assert_eq!((mask("SigBlk:"), mask("SigIgn:") & SIGPIPE), (0, 0));
    let adjusted = |pid: i32| fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim().parse::<i32>();
    assert!(adjusted(engine).unwrap() > adjusted(house.shim.unwrap()).unwrap());
    line.stop();
}

fn open_files(pid: i32) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().map(|entry| entry.unwrap().path());
    // One of them may have been this very look.
    links.filter_map(|link| Some(fs::read_link(link).ok()?.to_str().unwrap().to_owned())).collect()
}
