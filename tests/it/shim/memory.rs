//! An idle shim weighs little, and is no worse a shim for it.

use std::fs;

use serde_json::json;

use crate::shim::driver::{House, script, until};

/// How many kB of a process's memory are pages of files, or its own.
fn resident(pid: i32, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_shim_that_went_quiet_gives_back_what_it_has_only_read_each_time() {
    let mut house = House::new();
    let (mut line, _) = house.start(&script("while read -r line; do echo \"got $line\"; done"));
    let shim = house.shim.unwrap();
    let (busy, own) = (resident(shim, "RssFile"), resident(shim, "RssAnon"));
    for seq in 1..=2 {
        until("its pages are given back", || (resident(shim, "RssFile") < busy / 2).then_some(()));
        assert!(resident(shim, "RssAnon") >= own, "its own pages stay");
        assert_eq!(line.write(seq, "still here\n", &json!({})), "written");
        line.grown_to(15 * seq);
    }
    line.stop();
    assert_eq!(house.output(), b"got still here\ngot still here\n");
    house.wait_for_its_end();
}
