//! What goes wrong around a runner harms no engine, and is named.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::daemon::{Daemon, force, home_of_a_past_life, said, start};
use crate::support::processes::{end_shims, is_alive};
use crate::support::runner::{Engines, TestRunner, ended, tracked};
use crate::support::stream::{Stream, at, events};

/// Answers each message with as many numbered lines as it says.
const COUNTS: &str = r#"while read -r line; do seq 1 "$(echo "$line" | tr -dc 0-9)"; echo done; done"#;

async fn until_named(daemon: &Daemon, what: &[&str]) {
    for _ in 0..2_000 {
        let health = daemon.get("/coding/health").await;
        let troubles: Vec<_> = health["troubles"].as_array().unwrap().iter().map(Value::to_string).collect();
        if troubles.iter().any(|one| what.iter().all(|what| one.contains(what))) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what:?} is not named: {}", daemon.get("/coding/health").await);
}

async fn until_content(daemon: &Daemon) {
    for _ in 0..2_000 {
        if daemon.get("/coding/health").await["troubles"] == json!([]) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("still in trouble: {}", daemon.get("/coding/health").await);
}

/// Puts a file in the place of a folder, and returns where the folder is meanwhile.
fn block(folder: &Path) -> PathBuf {
    let aside = folder.with_extension("aside");
    std::fs::rename(folder, &aside).unwrap();
    std::fs::write(folder, "no folder").unwrap();
    aside
}

fn unblock(folder: &Path, aside: &Path) {
    std::fs::remove_file(folder).unwrap();
    std::fs::rename(aside, folder).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_runner_on_the_folder_refuses_and_touches_nothing() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let first = Daemon::start(&home).await;
    let pid = first.begin("s1", COUNTS).await;
    let epoch = first.list().await["epoch"].clone();
    for _ in 0..3 {
        let mut second = Daemon::launch(home.path(), "");
        assert!(!second.ends().await);
    }
    assert!(said(home.path()).contains("another runner uses the state folder"), "{}", said(home.path()));
    assert_eq!(first.say("s1", "1").await.0, 200);
    let list = first.list().await;
    assert_eq!((&list["epoch"], &tracked(&list, "s1").unwrap()["pid"]), (&epoch, &json!(pid)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_cannot_be_written_down_is_not_told_and_is_named() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    daemon.begin("s1", COUNTS).await;
    let other = daemon.begin("s2", COUNTS).await;
    let folder = home.path().join("state/ended");
    let aside = block(&folder);
    let ending = tokio::spawn(daemon.post("end", &force("s1")).send());
    until_named(&daemon, &["s1", "cannot be written down"]).await;
    let list = daemon.list().await;
    assert!(tracked(&list, "s1").is_some() && ended(&list, "s1").is_none(), "{list}");
    assert!(is_alive(other));
    assert_eq!(daemon.say("s2", "1").await.0, 200);
    unblock(&folder, &aside);
    let list = daemon.until("recorded", |list| ended(list, "s1").is_some()).await;
    assert!(tracked(&list, "s1").is_none());
    let answer: Value = ending.await.unwrap().unwrap().json().await.unwrap();
    assert!(["stopped", "accepted"].contains(&answer["outcome"].as_str().unwrap()), "{answer}");
    assert!(said(home.path()).contains("an end record cannot be written"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_folder_that_cannot_be_written_starts_and_stops_nothing_and_harms_nothing() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let pid = daemon.begin("s1", COUNTS).await;
    let folder = home.path().join("state/sessions");
    let aside = block(&folder);
    let (status, answer) = daemon.tell("start", &start("s2", COUNTS)).await;
    assert_eq!(status, 500, "{answer}");
    assert!(answer.to_string().contains("could not be written down"), "{answer}");
    let (status, answer) = daemon.force("s1").await;
    assert_eq!(status, 500, "{answer}");
    assert!(answer.to_string().contains("nothing was stopped"), "{answer}");
    assert_eq!(daemon.say("s1", "1").await.0, 200, "its shim stands in its folder, wherever that is");
    unblock(&folder, &aside);
    assert!(is_alive(pid));
    assert!(tracked(&daemon.list().await, "s2").is_none());
    assert_eq!(daemon.force("s1").await.1["outcome"], "stopped");
}

/// A small file system of its own.
struct Mount(Arc<TempDir>);

impl Mount {
    /// Puts one where the state of `home` will lie; none where that is not permitted.
    fn small(home: &Arc<TempDir>) -> Option<Self> {
        let state = home.path().join("state");
        std::fs::create_dir_all(&state).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=3m", "none"]).arg(&state).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then(|| Self(Arc::clone(home)))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        end_shims(self.0.path());
        let _ = Command::new("umount").arg("-l").arg(self.0.path().join("state")).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_makes_an_engine_wait_and_loses_nothing() {
    let home = home_of_a_past_life().await;
    std::fs::remove_dir_all(home.path().join("state")).unwrap();
    let Some(_mount) = Mount::small(&home) else {
        println!("skipped: no file system may be mounted here");
        return;
    };
    let daemon = Daemon::start(&home).await;
    let pid = daemon.begin("s1", COUNTS).await;
    let filler = home.path().join("state/filler");
    let full = std::fs::write(&filler, vec![0; 4 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(daemon.say("s1", "50000").await.0, 200);
    until_named(&daemon, &["s1", "output cannot be kept"]).await;
    let (status, answer) = daemon.tell("start", &start("s2", COUNTS)).await;
    assert_eq!(status, 500, "{answer}");
    assert!(is_alive(pid) && tracked(&daemon.list().await, "s1").is_some());
    // A runner that is killed then cannot count its epoch up, and says so.
    daemon.kill();
    let mut refused = Daemon::launch(home.path(), "");
    assert!(!refused.ends().await);
    assert!(said(home.path()).contains("No space left"), "{}", said(home.path()));
    assert!(is_alive(pid));

    std::fs::remove_file(&filler).unwrap();
    let daemon = Daemon::start(&home).await;
    daemon.ready().await;
    let mut stream = Stream::open(daemon.request(&events("s1", at(0)))).await.unwrap();
    for number in 1..=50_000 {
        assert_eq!(stream.next().await.unwrap().data["line"], number.to_string());
    }
    assert_eq!(stream.next().await.unwrap().data["line"], "done");
    until_content(&daemon).await;
    assert_eq!(daemon.force("s1").await.1["outcome"], "stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_a_cleaner_removed_comes_back() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let pid = daemon.begin("s1", COUNTS).await;
    let socket = home.path().join("state/sessions/s1/s");
    std::fs::remove_file(&socket).unwrap();
    assert_eq!(daemon.say("s1", "1").await.0, 200, "who is connected stays so");
    daemon.kill();
    let daemon = Daemon::start(&home).await;
    let list = daemon.ready().await;
    assert!(tracked(&list, "s1").is_some() && ended(&list, "s1").is_none(), "{list}");
    let list = daemon.until("found again", |list| tracked(list, "s1").unwrap()["pid"] == pid).await;
    assert!(socket.exists() && ended(&list, "s1").is_none());
    until_content(&daemon).await;
    assert_eq!(daemon.say("s1", "1").await.0, 200);
    assert_eq!(daemon.force("s1").await.1["outcome"], "stopped");
}

/// Returns how much memory a process has, in kB.
fn memory(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_never_read_cost_neither_the_engine_nor_memory() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    daemon.begin("s1", COUNTS).await;
    assert_eq!(daemon.say("s1", "1").await.0, 200);
    let before = memory(daemon.pid());
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(Stream::open(daemon.request(&events("s1", at(0)))).await.unwrap());
    }
    assert_eq!(daemon.say("s1", "2000000").await.0, 200);
    // It is done with it, so nobody made it wait.
    let out = home.path().join("state/sessions/s1/out");
    let segments = || std::fs::read_dir(&out).into_iter().flatten().flatten();
    let written = || segments().map(|it| it.metadata().unwrap().len()).sum::<u64>();
    daemon.until("all of it written", |_| written() > 14_800_000).await;
    assert_eq!(daemon.touch("s1").await.0, 200);
    let grown = memory(daemon.pid()).saturating_sub(before);
    println!("five clients that do not read cost {grown} kB");
    assert!(grown < 30_000, "{grown} kB more than {before}");
    assert_eq!(tracked(&daemon.list().await, "s1").unwrap()["attached"], 5);
    drop(silent);
    daemon.until("left", |list| tracked(list, "s1").unwrap()["attached"] == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_nothing_for_too_long_is_let_go() {
    let runner = TestRunner::start_with(|settings| settings.streams.silent_most = Duration::from_millis(300)).await;
    runner.script("s1", COUNTS).await;
    let request =
        runner.request(reqwest::Method::GET, &events("s1", at(0))).bearer_auth(crate::support::runner::SECRET);
    let mut silent = Stream::open(request).await.unwrap();
    runner.until_tracked("s1", "attached", |one| one["attached"] == 1).await;
    assert_eq!(runner.say("s1", "1000000").await.0, 200);
    runner.until_tracked("s1", "let go", |one| one["attached"] == 0).await;
    assert_eq!(runner.say("s1", "1").await.0, 200);
    // What it was sent before is all that it gets, and it comes again from there.
    let mut cursor = at(0);
    while let Some(heard) = silent.next().await {
        cursor = heard.cursor.unwrap_or(cursor);
    }
    let request =
        runner.request(reqwest::Method::GET, &events("s1", cursor)).bearer_auth(crate::support::runner::SECRET);
    assert!(Stream::open(request).await.unwrap().next().await.unwrap().cursor.unwrap() > cursor);
    runner.stop().await;
}
