//! Looking at real processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A word that stands in the command lines of one test's processes and nowhere else.
pub(crate) fn unique() -> String {
    // A plausible argument of `sleep`.
    let number = uuid::Uuid::new_v4().as_u128() % 1_000_000_000_000;
    format!("4000.{number:012}")
}

/// Returns the live processes whose command line is `sleep` with this word.
pub(crate) fn sleeping(word: &str) -> Vec<i32> {
    let words = |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_it = |pid: &i32| words(*pid).starts_with(format!("sleep\0{word}").as_bytes());
    pids().filter(is_it).filter(|pid| is_alive(*pid)).collect()
}

/// Returns whether the process is there and no zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

/// Returns the process's parent.
pub(crate) fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}

/// Returns the process's environment and command line as one text.
pub(crate) fn visible(pid: i32) -> String {
    let read = |what| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    String::from_utf8_lossy(&[read("environ"), read("cmdline")].concat()).replace('\0', "\n")
}

/// Sends a signal by its name.
pub(crate) fn kill(pid: i32, signal: &str) {
    let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Kills every shim that works in a folder below `home`, and whatever carries the mark of the runner there.
pub(crate) fn end_shims(home: &Path) {
    let mark = fs::read_to_string(home.join("state/identity.json")).unwrap_or_default();
    let mark = serde_json::from_str::<serde_json::Value>(&mark).unwrap_or_default()["mark"].as_str().map(str::to_owned);
    let home = home.display().to_string();
    let left = |pid: &i32| {
        let text = visible(*pid);
        let is_shim = text.contains("sexton-shim") || text.contains("\nshim\n");
        (is_shim && text.contains(&home)) || mark.as_ref().is_some_and(|mark| text.contains(mark.as_str()))
    };
    for _ in 0..3 {
        for pid in pids().filter(left).filter(|pid| is_alive(*pid)) {
            let _ = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    }
}

/// Returns, by session, the processes that carry the mark of the runner in `home`, and those of the shims that hold.
pub(crate) fn running(home: &Path) -> (BTreeMap<String, Vec<i32>>, BTreeMap<String, Vec<i32>>) {
    let identity = fs::read(home.join("state/identity.json")).unwrap();
    let identity: serde_json::Value = serde_json::from_slice(&identity).unwrap();
    let mark = format!("SEXTON_RUNNER_MARK={}", identity["mark"].as_str().unwrap());
    let held = format!("--held\n{}/", home.join("state/sessions").display());
    let (mut engines, mut shims) = (BTreeMap::new(), BTreeMap::new());
    for pid in pids().filter(|pid| is_alive(*pid)) {
        let text = visible(pid);
        if text.contains(&mark) {
            let id = text.lines().find_map(|line| line.strip_prefix("SEXTON_SESSION_ID=")).unwrap_or_default();
            engines.entry(id.to_owned()).or_insert_with(Vec::new).push(pid);
        } else if let Some((_, id)) = text.split_once(&held) {
            shims.entry(id.trim().to_owned()).or_insert_with(Vec::new).push(pid);
        }
    }
    (engines, shims)
}

fn pids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
