//! An engine in a control group of its own, where this machine lets the test make one.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use serde_json::json;

use crate::shim::driver::{House, script, until};
use crate::support::processes::{sleeping, unique};

/// A control group that is removed again.
struct Group(PathBuf);

impl Group {
    fn make() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let two = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
        let folder = PathBuf::from(two.split(' ').nth(1)?).join(format!("sexton-test-{}", unique()));
        fs::create_dir(&folder).ok().map(|()| Self(folder))
    }

    fn leaves(&self) -> usize {
        fs::read_dir(&self.0).unwrap().filter(|it| it.as_ref().unwrap().path().is_dir()).count()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = fs::write(entry.path().join("cgroup.kill"), "1");
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(&self.0);
    }
}

fn group() -> Option<Group> {
    let group = Group::make();
    if group.is_none() {
        let required = std::env::var("SEXTON_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|word| word == "cgroup"), "no control group can be made here");
        let _ = writeln!(std::io::stderr(), "skipped: no control group can be made here");
    }
    group
}

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
