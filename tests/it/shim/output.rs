//! Each byte of an engine's output is kept once, whoever reads it or does not, and whatever the disk says.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::shim::driver::{House, script, segments, until};

const LINES: usize = 100_000;

fn lines() -> String {
    (1..=LINES).map(|number| format!("{number}\n")).collect()
}

#[test]
fn every_line_is_kept_once_while_connections_come_and_go() {
    let mut house = House::new();
    let (line, _) = house.start(&script(&format!("seq 1 {LINES}; exec cat")));
    drop(line);
    let whole = lines();
    let mut met = 0;
    loop {
        let (mut line, hello) = house.meet();
        met += 1;
        let head = hello["head"].as_u64().unwrap();
        let kept = house.output();
        assert!(kept.len() as u64 >= head && whole.as_bytes().starts_with(&kept), "after {met} connections");
        if head == whole.len() as u64 {
            assert_eq!(line.stop()["head"], head);
            break;
        }
    }
    assert_eq!(house.output(), whole.as_bytes());
}

#[test]
fn a_runner_that_never_reads_holds_up_nothing() {
    let mut house = House::new();
    let (_deaf, _) = house.start(&script(&format!("seq 1 {LINES}; for i in $(seq 1 3000); do echo x; done; exec cat")));
    let whole = lines().len() as u64 + 6_000;
    until("all of it is kept", || (house.output().len() as u64 == whole).then_some(()));
    house.meet().0.stop();
}

#[test]
fn old_segments_go_and_offsets_stay() {
    let mut house = House::new();
    let mut spec = script(&format!("seq 1 {LINES}; exec cat"));
    (spec["segment_bytes"], spec["output_most"]) = (json!(10_000), json!(50_000));
    let (mut line, _) = house.start(&spec);
    let whole = lines();
    line.grown_to(whole.len() as u64);
    let (mut line, hello) = house.meet();
    let base = usize::try_from(hello["base"].as_u64().unwrap()).unwrap();
    assert!(base > 0 && whole.len() - base <= 60_000 && base % 10_000 == 0, "{base}");
    assert_eq!(house.output(), whole.as_bytes()[base..]);
    let names: Vec<String> =
        segments(&house.file("out")).iter().map(|it| it.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(names[0], format!("{base:020}.log"));
    assert_eq!(fs::read_dir(house.file("out")).unwrap().count(), names.len() * 2, "each with its times");
    let last = fs::read(segments(&house.file("out")).last().unwrap().with_extension("times")).unwrap();
    assert_eq!(last[last.len() - 16..][..8], (whole.len() as u64).to_le_bytes(), "who comes reads all times");
    line.stop();
}

#[test]
fn standard_error_is_kept_apart() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script("echo out; echo err >&2; exec cat"));
    line.grown_to(4);
    until("both are kept", || (fs::read(house.file("err.log")).unwrap_or_default() == b"err\n").then_some(()));
    assert_eq!(house.output(), b"out\n");
    assert_eq!(house.meet().1["errors"], 4);
    house.meet().0.stop();
}

#[test]
fn what_is_in_the_pipe_at_the_end_is_kept() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script("seq 1 10000 & seq 1 10000 >&2; wait; exit 0"));
    let gone = line.news("gone");
    assert_eq!((gone["head"].as_u64().unwrap(), house.output().len()), (48_894, 48_894));
    assert_eq!(fs::read(house.file("err.log")).unwrap().len(), 48_894);
}

/// A small file system that is unmounted again.
struct Small(House);

impl Small {
    fn mount() -> Option<Self> {
        let house = House::empty();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(house.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(house))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        self.0.end();
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn on_a_full_disk_the_engine_waits_and_nothing_is_lost() {
    let Some(mut small) = Small::mount() else {
        let required = std::env::var("SEXTON_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|word| word == "mount"), "a small file system cannot be mounted");
        eprintln!("skipped: a small file system cannot be mounted");
        return;
    };
    let house = &mut small.0;
    fs::write(house.file("ballast"), vec![0; 600 * 1024]).unwrap();
    house.run_shim();
    let (mut line, _) = house.start(&script(&format!("seq 1 {LINES}; exec cat")));
    let what = line.news("trouble")["what"].as_str().unwrap().to_owned();
    assert!(what.contains("output cannot be kept"), "{what}");
    // It answers all the same, and says what is wrong.
    let (mut line, hello) = house.meet();
    assert_eq!(hello["trouble"], what);
    let whole = lines();
    assert!(hello["head"].as_u64().unwrap() < whole.len() as u64);
    fs::remove_file(house.file("ballast")).unwrap();
    line.grown_to(whole.len() as u64);
    assert_eq!(house.output(), whole.as_bytes());
    assert_eq!(line.stop()["head"], whole.len() as u64);
}

#[test]
fn a_shim_stays_until_its_record_is_on_disk() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script("exec cat"));
    // A folder of that name cannot be replaced by a file, whoever writes it.
    fs::create_dir_all(house.file("exit.json/in-the-way")).unwrap();
    line.order("stop", &json!({}));
    let what = line.news("trouble")["what"].as_str().unwrap().to_owned();
    assert!(what.contains("exit.json"), "{what}");
    let (mut line, hello) = house.meet();
    assert_eq!((&hello["exit"]["code"], &hello["stopping"]), (&json!(0), &json!(true)));
    fs::remove_dir_all(house.file("exit.json")).unwrap();
    line.news("gone");
    house.wait_for_its_end();
}
