//! Files that somebody removes under a running engine, and what a runner that was killed had only just been told.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use sexton::clock::{Clock, SystemClock};

use crate::support::daemon::{Daemon, force, home_of_a_past_life, said};
use crate::support::processes::{is_alive, kill, parent};
use crate::support::runner::{Engines, QUIET, TestRunner, ended, tracked};

/// Tells a turn, and another one for each message.
const SPEAKS: &str = r#"say() { echo "{\"type\":\"$1\"}"; }; say turn_started; say turn_ended;
while read -r line; do say turn_started; say turn_ended; done"#;

fn remove_files(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_whose_shim_lost_its_files_to_a_cleaner_is_neither_killed_nor_lost() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let (one, two) = (daemon.begin("s1", SPEAKS).await, daemon.begin("s2", SPEAKS).await);
    daemon.kill();
    let sessions = home.path().join("state/sessions");
    std::fs::remove_file(sessions.join("s1/lock")).unwrap();
    remove_files(&sessions.join("s2"));
    let daemon = Daemon::start(&home).await;
    let list = daemon.ready().await;
    for (id, pid) in [("s1", one), ("s2", two)] {
        assert!(is_alive(pid), "{id}: {list}");
        assert!(tracked(&list, id).is_some() && ended(&list, id).is_none(), "{id}: {list}");
    }
    assert_eq!(daemon.say("s1", "hello").await.0, 200);
    for id in ["s1", "s2"] {
        daemon.until("reached", |list| tracked(list, id).unwrap()["pid"].is_i64()).await;
        assert_eq!(daemon.force(id).await.1["outcome"], "stopped");
    }
    assert!(!is_alive(one) && !is_alive(two));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_runner_refuses_although_somebody_removed_the_lock_file_of_the_first() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let first = Daemon::start(&home).await;
    first.begin("s1", SPEAKS).await;
    std::fs::remove_file(home.path().join("state/runner.lock")).unwrap();
    let mut second = Daemon::launch(home.path(), "");
    assert!(!second.ends().await);
    assert!(said(home.path()).contains("another runner uses the state folder"), "{}", said(home.path()));
    assert_eq!(first.say("s1", "hello").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_that_was_removed_before_it_was_read_leaves_a_state_that_nobody_knows() {
    let runner = TestRunner::start().await;
    let film = runner.film("s1").await;
    film.says(&[r#"{"type":"turn_started"}"#, r#"{"type":"turn_ended"}"#]);
    runner.until_tracked("s1", "idle", |one| one["generating"] == false).await;
    remove_files(&runner.state().join("sessions/s1/out"));
    runner.clock.advance(QUIET);
    film.says(&[r#"{"type":"turn_started"}"#]);
    runner.until_tracked("s1", "unknown", |one| one["generating"] == Value::Null && one["idle_ms"] == 0).await;
    runner.clock.advance(QUIET);
    let (status, answer) = runner.end_if_idle("s1").await;
    assert_eq!((status, &answer["outcome"]), (409, &json!("refused")), "{answer}");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persons_stop_is_taken_up_once_its_shim_answers_and_not_a_life_later() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    let pid = daemon.begin("s1", SPEAKS).await;
    let shim = parent(pid);
    kill(shim, "STOP");
    let asking = tokio::spawn(daemon.post("end", &force("s1")).send());
    while !home.path().join("state/sessions/s1/end.json").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    daemon.kill();
    let _ = asking.await;
    // As if the runner had died before it could tell the shim.
    let daemon = Daemon::start(&home).await;
    daemon.ready().await;
    kill(shim, "CONT");
    let list = daemon.until("ended", |list| ended(list, "s1").is_some()).await;
    assert_eq!(ended(&list, "s1").unwrap()["reason"], "ended_by_person");
    assert!(!is_alive(pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adopted_engine_keeps_its_conversation_and_its_use_across_a_kill() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    daemon.ready().await;
    let start = |generation| {
        json!({"session_id": "s1", "generation": generation, "engine": "sh", "cwd": "/", "args": [SPEAKS],
               "engine_session_id": "talk-7"})
    };
    assert_eq!(daemon.tell("start", &start(1)).await.0, 200);
    // Whatever keeps the note fresh is over.
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    let adopted = SystemClock.awake();
    assert_eq!(daemon.tell("start", &start(2)).await.0, 200);
    daemon.kill();
    let daemon = Daemon::start(&home).await;
    let list =
        daemon.until("read", |list| list["ready"] == true && tracked(list, "s1").unwrap()["idle_ms"].is_i64()).await;
    let one = tracked(&list, "s1").unwrap();
    assert_eq!((&one["generation"], &one["engine_session_id"]), (&json!(2), &json!("talk-7")), "{one}");
    assert!(one["idle_ms"].as_i64().unwrap() <= SystemClock.awake() - adopted + 1, "{one}");
    let other = json!({"session_id": "s2", "generation": 1, "engine": "sh", "cwd": "/", "args": [SPEAKS],
                       "engine_session_id": "talk-7"});
    assert_eq!(daemon.tell("start", &other).await.1["outcome"], "in_use", "never two engines on one conversation");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_on_a_copy_of_the_state_folder_kills_no_engine_of_the_original() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let first = Daemon::start(&home).await;
    let pid = first.begin("s1", SPEAKS).await;
    let copy = tempfile::tempdir().unwrap();
    for what in ["state", "secret"] {
        // A socket cannot be copied, which is told and harms nothing.
        let _ =
            std::process::Command::new("cp").arg("-a").arg(home.path().join(what)).arg(copy.path()).status().unwrap();
    }
    let second = Daemon::start(&copy).await;
    second.ready().await;
    // The shim that is written down there lives, so the copy keeps the session and knows nothing of it.
    let list = second.until("kept", |list| tracked(list, "s1").is_some()).await;
    assert!(tracked(&list, "s1").unwrap()["generating"].is_null() && list["ended"] == json!([]), "{list}");
    assert!(is_alive(pid));
    assert_eq!(first.say("s1", "hello").await.0, 200);
}
