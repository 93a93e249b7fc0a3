//! An engine in a control group of its own, where this machine lets the test make one.

use std::fs;

use serde_json::json;

use crate::shim::driver::{House, script, until};
use crate::support::cgroups::group;
use crate::support::processes::{sleeping, unique};

#[test]
fn an_engine_gets_a_control_group_that_goes_with_it() {
    let Some(group) = group() else { return };
    let word = unique();
    let mut house = House::new();
    let mut spec = script(&format!("setsid sleep {word} & cat"));
    spec["cgroup"] = json!(group.0);
    let (mut line, engine) = house.start(&spec);
    until("the tree stands", || (sleeping(&word).len() == 1).then_some(()));
    assert_eq!(group.leaves(), 1);
    let its = fs::read_to_string(format!("/proc/{engine}/cgroup")).unwrap();
    assert!(its.contains("/sexton-"), "{its}");
    assert!(!fs::read_to_string(format!("/proc/{}/cgroup", house.shim.unwrap())).unwrap().contains("/sexton-test"));
    assert_eq!(house.meet().1["containment"], "cgroup");
    let gone = house.meet().0.stop();
    assert_eq!(gone["containment"], "cgroup");
    assert!(sleeping(&word).is_empty());
    assert_eq!(group.leaves(), 0);
    let _ = line.next();
}

#[test]
fn without_a_control_group_there_is_the_subreaper() {
    let mut house = House::new();
    let mut spec = script("exec cat");
    spec["cgroup"] = json!("/proc/self");
    let (mut line, _) = house.start(&spec);
    assert_eq!(house.meet().1["containment"], "subreaper");
    assert_eq!(house.meet().0.stop()["containment"], "subreaper");
    let _ = line.next();
}
