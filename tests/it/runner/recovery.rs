//! What a runner tells while it finds its engines again, and what it tells of those that it cannot understand.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::daemon::{Daemon, home_of_a_past_life, said};
use crate::support::processes::{is_alive, kill, parent};
use crate::support::runner::{Engines, ended, tracked};

const DAY: i64 = 24 * 60 * 60 * 1_000;
/// Tells its conversation and a turn, and both again for each message.
const SPEAKS: &str = r#"say() { echo "{\"type\":\"$1\"$2}"; }; talk() { i=0; while [ $i -lt 20 ]; do
say session ',"engine_session_id":"talk-7"'; i=$((i+1)); done; say turn_started; say turn_ended; }
talk; while read -r line; do talk; done"#;

fn is_known(one: &Value) -> bool {
    one["generating"] == false && one["idle_ms"].is_i64()
}

async fn health(daemon: &Daemon, list: &str) -> Vec<String> {
    let health = daemon.get("/coding/health").await;
    health[list].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// Silence of any length is long enough: only what it does, or that nobody knows that, can refuse it.
async fn end_whatever_its_age(daemon: &Daemon, id: &str) -> (u16, Value) {
    let stamp = daemon.list().await["stamp"].clone();
    let limits = json!({"quiet_for_ms": 0, "awaiting_for_ms": DAY, "stalled_for_ms": DAY, "background_for_ms": DAY});
    let body = json!({"session_id": id, "generation": 1, "mode": "if_idle", "reason": "idle", "sweep_id": "sweep-1",
                      "stamp": stamp, "limits": limits});
    daemon.tell("end", &body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shim_that_does_not_answer_is_tracked_unknown_and_right_again_later() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let pid = daemon.begin("s1", SPEAKS).await;
    daemon.begin("s2", SPEAKS).await;
    daemon.until("known", |list| ["s1", "s2"].iter().all(|id| is_known(tracked(list, id).unwrap()))).await;
    daemon.kill();
    kill(parent(pid), "STOP");
    let mut daemon = Daemon::launch(home.path(), "");
    daemon.answers().await;
    let list = daemon.list().await;
    assert_eq!((&list["ready"], &list["complete"]), (&json!(false), &json!(false)), "it still looks for its engines");
    assert_eq!(daemon.force("s1").await.1["outcome"], "not_ready");

    let list = daemon.ready().await;
    assert!(is_known(tracked(&list, "s2").unwrap()), "{list}");
    let one = tracked(&list, "s1").unwrap();
    assert_eq!(
        (&one["generating"], &one["background_tasks"], &one["idle_ms"]),
        (&json!(null), &json!(null), &json!(null))
    );
    assert!(ended(&list, "s1").is_none());
    let troubles = health(&daemon, "troubles").await;
    assert!(matches!(&*troubles, [one] if one.contains("s1") && one.contains("does not answer")), "{troubles:?}");
    let (status, answer) = end_whatever_its_age(&daemon, "s1").await;
    assert_eq!((status, &answer["outcome"]), (409, &json!("refused")), "nobody knows what it does: {answer}");

    kill(parent(pid), "CONT");
    let list = daemon.until("known again", |list| is_known(tracked(list, "s1").unwrap())).await;
    assert_eq!(tracked(&list, "s1").unwrap()["pid"], pid);
    assert_eq!(daemon.say("s1", "hello").await.0, 200);
    assert_eq!(health(&daemon, "troubles").await, Vec::<String>::new());
    assert_eq!(daemon.force("s1").await.1["outcome"], "stopped");
    assert!(!is_alive(pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_folder_of_sessions_a_runner_does_not_start_and_no_engine_is_harmed() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let pid = daemon.begin("s1", SPEAKS).await;
    daemon.kill();
    let (sessions, aside) = (home.path().join("state/sessions"), home.path().join("state/aside"));
    std::fs::rename(&sessions, &aside).unwrap();
    std::fs::write(&sessions, "no folder").unwrap();
    assert!(!Daemon::launch(home.path(), "").ends().await);
    assert!(said(home.path()).contains("cannot be used"), "{}", said(home.path()));
    assert!(is_alive(pid));
    std::fs::remove_file(&sessions).unwrap();
    std::fs::rename(&aside, &sessions).unwrap();
    let daemon = Daemon::start(&home).await;
    assert_eq!(tracked(&daemon.ready().await, "s1").unwrap()["pid"], pid);
    assert_eq!(daemon.say("s1", "hello").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_state_folder_is_another_runner_that_harms_no_engine_of_the_first() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let old = daemon.begin("s1", SPEAKS).await;
    let first = daemon.list().await;
    daemon.kill();
    let state = home.path().join("state");
    std::fs::rename(&state, home.path().join("lost")).unwrap();
    let daemon = Daemon::start(&home).await;
    let list = daemon.ready().await;
    assert_eq!((list["tracked"].as_array().unwrap().len(), &list["epoch"]), (0, &json!(1)));
    assert_ne!(list["state_id"], first["state_id"], "whoever asks sees that it is another one");
    // The same session anew, and its end, and a shim that is killed: what has the other mark is never meant.
    let new = daemon.begin("s1", SPEAKS).await;
    assert!(is_alive(old) && new != old);
    kill(parent(new), "KILL");
    daemon.until("recorded", |list| ended(list, "s1").is_some()).await;
    assert!(!is_alive(new) && is_alive(old));
    daemon.kill();
    // Found again, it is as it was.
    std::fs::remove_dir_all(&state).unwrap();
    std::fs::rename(home.path().join("lost"), &state).unwrap();
    let daemon = Daemon::start(&home).await;
    let list = daemon.ready().await;
    assert_eq!(
        (&list["state_id"], tracked(&list, "s1").unwrap()["pid"].as_i64()),
        (&first["state_id"], Some(i64::from(old)))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_start_record_with_a_living_engine_is_kept_unknown_and_named() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let pid = daemon.begin("s1", SPEAKS).await;
    let gone = daemon.begin("s2", SPEAKS).await;
    daemon.until("known", |list| is_known(tracked(list, "s1").unwrap())).await;
    daemon.kill();
    let folder = home.path().join("state/sessions");
    std::fs::write(folder.join("s1/start.1.json"), "{\"engine\":").unwrap();
    std::fs::remove_file(folder.join("s2/start.1.json")).unwrap();
    for _ in 0..2 {
        let daemon = Daemon::start(&home).await;
        let list = daemon.ready().await;
        for (id, pid) in [("s1", pid), ("s2", gone)] {
            let one = tracked(&list, id).unwrap();
            assert_eq!(
                (&one["pid"], &one["generating"], &one["background_tasks"]),
                (&json!(pid), &json!(null), &json!(null))
            );
            assert!(ended(&list, id).is_none() && is_alive(pid));
        }
        let damaged = health(&daemon, "damaged").await;
        for id in ["s1", "s2"] {
            assert!(damaged.iter().any(|one| one.contains(&format!("session {id} is damaged"))), "{damaged:?}");
        }
        daemon.kill();
    }
    let daemon = Daemon::start(&home).await;
    daemon.ready().await;
    assert_eq!(daemon.force("s1").await.1["outcome"], "stopped");
    assert!(!is_alive(pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_shim_that_is_gone_lets_another_boot_end_its_engine() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let pid = daemon.begin("s1", SPEAKS).await;
    let shim = parent(pid);
    daemon.kill();
    let path = home.path().join("state/sessions/s1/start.1.json");
    let mut start: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    start["boot_id"] = json!("another-boot");
    std::fs::write(&path, start.to_string()).unwrap();
    let daemon = Daemon::start(&home).await;
    assert_eq!(tracked(&daemon.ready().await, "s1").unwrap()["pid"], pid, "whatever is written there, it lives");
    daemon.kill();
    kill(shim, "KILL");
    while is_alive(shim) || is_alive(pid) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let daemon = Daemon::start(&home).await;
    let list = daemon.ready().await;
    assert_eq!(ended(&list, "s1").unwrap()["reason"], "host_reboot");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_engine_did_meanwhile_is_read_before_anybody_is_told_that_it_is_idle() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let (flag, done) = (home.path().join("go"), home.path().join("done"));
    let say = r#"say() { echo "{\"type\":\"$1\"}"; }; say turn_started; say turn_ended"#;
    let wait = format!("while [ ! -e {} ]; do sleep 0.02; done", flag.display());
    let busy = format!("seq 1 1000000; say turn_started; touch {}; sleep 1000", done.display());
    daemon.begin("s1", &format!("{say}; {wait}; {busy}")).await;
    daemon.until("idle", |list| is_known(tracked(list, "s1").unwrap())).await;
    daemon.kill();
    std::fs::write(&flag, "").unwrap();
    while !done.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let daemon = Daemon::start(&home).await;
    daemon.ready().await;
    let (status, answer) = end_whatever_its_age(&daemon, "s1").await;
    assert_eq!((status, &answer["outcome"]), (409, &json!("refused")), "{answer}");
    let one = |list: &Value| tracked(list, "s1").unwrap()["generating"].clone();
    daemon
        .until("read", |list| {
            assert_ne!(one(list), false, "not all of it is read: {list}");
            one(list) == true
        })
        .await;
}

/// Which file it is, and when it was written.
fn which(path: &Path) -> (u64, i64, i64) {
    let meta = std::fs::metadata(path).unwrap();
    (meta.ino(), meta.mtime(), meta.mtime_nsec())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_conversation_is_on_disk_before_it_is_told_and_written_once() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let mut daemon = Daemon::start(&home).await;
    let path = home.path().join("state/sessions/s1/conversation.json");
    let body = crate::support::daemon::start("s1", SPEAKS);
    daemon.ready().await;
    let starting = tokio::spawn(daemon.post("start", &body).send());
    while !path.exists() {
        tokio::time::sleep(std::time::Duration::from_micros(200)).await;
    }
    daemon.kill();
    drop(starting.await);
    let written = which(&path);
    for _ in 0..3 {
        daemon = Daemon::start(&home).await;
        let list = daemon.ready().await;
        assert_eq!(tracked(&list, "s1").unwrap()["engine_session_id"], "talk-7");
        let found = daemon.get("/coding/find?engine_session_id=talk-7").await;
        assert_eq!((&found["session_id"], &found["tracked"]), (&json!("s1"), &json!(true)), "{found}");
        for _ in 0..5 {
            let body = json!({"session_id": "s1", "generation": 1, "text": "again", "wait": true});
            let (status, answer) = daemon.tell("messages", &body).await;
            assert_eq!((status, &answer["turn"]), (200, &json!("over")), "{answer}");
        }
        assert_eq!(which(&path), written, "it did not change, so it is not written");
        daemon.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_was_told_while_no_runner_was_there_is_known_after_the_engine_left() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let flag = home.path().join("go");
    let said = r#"echo '{"type":"session","engine_session_id":"talk-8"}'"#;
    let pid = daemon.begin("s1", &format!("while [ ! -e {} ]; do sleep 0.02; done; {said}", flag.display())).await;
    let shim = parent(pid);
    daemon.kill();
    std::fs::write(&flag, "").unwrap();
    while is_alive(shim) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let daemon = Daemon::start(&home).await;
    let list = daemon.ready().await;
    assert_eq!(ended(&list, "s1").unwrap()["reason"], "exited");
    let found = daemon.get("/coding/find?engine_session_id=talk-8").await;
    assert_eq!((&found["session_id"], &found["tracked"]), (&json!("s1"), &json!(false)), "{found}");
}
