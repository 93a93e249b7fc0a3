//! Nothing of an engine is left when its stop is answered, whatever it did to get away.

use std::process::Command;
use std::time::Duration;

use serde_json::json;
use sexton::runner::CgroupChoice;

use crate::support::cgroups::group;
use crate::support::processes::{is_alive, kill, parent, sleeping, unique};
use crate::support::runner::{TestRunner, ended, tracked};

/// Runs a script whose processes sleep for `{}`, waits until `count` of them do, stops it, and looks for survivors.
async fn nothing_is_left(script: &str, count: usize) -> serde_json::Value {
    let runner = TestRunner::start().await;
    let word = unique();
    let pid = runner.script("s1", &script.replace("{}", &word)).await;
    runner.until("all there", |_| sleeping(&word).len() >= count).await;
    let (status, answer) = runner.force("s1", 1).await;
    assert_eq!((status, answer["outcome"].as_str()), (200, Some("stopped")), "{answer}");
    assert_eq!(sleeping(&word), Vec::<i32>::new(), "{script}");
    assert!(!is_alive(pid));
    runner.stop().await;
    answer
}

fn stages(answer: &serde_json::Value) -> Vec<String> {
    let stages = answer["stages"].as_array().unwrap().iter();
    stages.map(|stage| stage["stage"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_in_sessions_of_their_own_die() {
    nothing_is_left("setsid sleep {} & nohup sleep {} >/dev/null 2>&1 & sleep {} & cat", 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_forked_twice_and_cleared_its_environment_dies() {
    nothing_is_left("(setsid sleep {} &); (env -i setsid sleep {} &); cat", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ignores_sigterm_dies_by_sigkill() {
    let answer = nothing_is_left("trap '' TERM; setsid sleep {} & while :; do sleep 0.05; done", 1).await;
    assert_eq!(stages(&answer), ["stdin_closed", "sigterm_engine", "sigterm_tree", "sigkill", "empty"]);
    assert_eq!(answer["exit"]["signal"], 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_obeys_sigterm_is_asked_no_further() {
    let answer = nothing_is_left("exec sleep {}", 1).await;
    assert_eq!(stages(&answer), ["stdin_closed", "sigterm_engine", "empty"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_process_is_woken_to_take_its_sigterm() {
    let answer = nothing_is_left("sleep {} & sleep 0.2; kill -STOP $!; kill -STOP $$", 1).await;
    assert!(!stages(&answer).contains(&"sigkill".to_owned()), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_storm_dies() {
    let hop = "trap '' TERM; hop() { ( hop & ) ; }; hop & hop & setsid sh -c \"trap '' TERM; hop() { ( hop & ) ; }; hop\" & setsid sleep {} & cat";
    nothing_is_left(hop, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_engine_leaves_behind_lingers_a_little_and_is_named() {
    let runner = TestRunner::start().await;
    let word = unique();
    runner.script("s1", &format!("setsid sleep {word} & read line; exit 0")).await;
    runner.until("there", |_| sleeping(&word).len() == 1).await;
    runner.say("s1", "go").await;
    let list = runner.until("recorded", |list| ended(list, "s1").is_some()).await;
    assert_eq!(sleeping(&word), Vec::<i32>::new());
    let record = ended(&list, "s1").unwrap();
    assert!(record["detail"].as_str().unwrap().contains("left behind and ended: sleep"), "{record}");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_shim_takes_its_engine_along_and_no_stranger() {
    let runner = TestRunner::start().await;
    let (word, strange) = (unique(), unique());
    let pid = runner.script("s1", &format!("setsid sleep {word} & cat")).await;
    runner.until("there", |_| sleeping(&word).len() == 1).await;
    // Another runner's engine for a session of the same name.
    let mut stranger = Command::new("sleep")
        .arg(&strange)
        .envs([("SEXTON_SESSION_ID", "s1"), ("SEXTON_RUNNER_ID", "runner-1"), ("SEXTON_RUNNER_MARK", "another")])
        .spawn()
        .unwrap();
    kill(parent(pid), "KILL");
    let list = runner.until("recorded", |list| ended(list, "s1").is_some()).await;
    assert!(!is_alive(pid));
    assert_eq!(sleeping(&word), Vec::<i32>::new());
    assert_eq!(sleeping(&strange).len(), 1, "the mark of another state folder is never hit");
    let record = ended(&list, "s1").unwrap();
    assert_eq!((record["reason"].as_str(), record["containment"].as_str()), (Some("exited"), Some("best_effort")));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_proven_gone_is_not_called_stopped() {
    let runner = TestRunner::start_with(|settings| settings.graces.kill = 100).await;
    let pid = runner.sample("s1", &["idle"]).await;
    let shim = parent(pid);
    // A shim that does not answer brings no proof, although the engine itself leaves.
    kill(shim, "STOP");
    let (status, answer) = runner.force("s1", 1).await;
    assert_eq!((status, answer["outcome"].as_str()), (202, Some("accepted")), "{answer}");
    let list = runner.list().await;
    assert!(tracked(&list, "s1").is_some() && ended(&list, "s1").is_none());
    kill(shim, "CONT");
    runner.until("recorded", |list| ended(list, "s1").is_some() && tracked(list, "s1").is_none()).await;
    let again = runner.force("s1", 1).await;
    assert_eq!((again.0, again.1["outcome"].as_str()), (200, Some("already_stopped")));
    assert_eq!(again.1["reason"], "ended_by_person");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_trees_are_ended_at_once_within_twice_the_longest_grace() {
    const TREES: [&str; 5] = [
        "setsid sleep {} & nohup sleep {} >/dev/null 2>&1 & sleep {} & cat",
        "(setsid sleep {} &); (env -i setsid sleep {} &); cat",
        "trap '' TERM; setsid sleep {} & while :; do sleep 0.5; done",
        "setsid sh -c \"trap '' TERM; sleep {}; sleep {}\" & exec cat",
        "setsid sleep {} & exec sleep {}",
    ];
    const STORM: &str = "trap '' TERM; hop() { ( sleep 0.01; hop & ) ; }; hop & setsid sleep {} & cat";
    let runner = TestRunner::start_with(|settings| settings.start_settle = 1).await;
    let (word, longest) = (unique(), Duration::from_millis(5_000));
    let scripts = (0..100).map(|number| if number % 20 == 19 { STORM } else { TREES[number % 5] });
    let scripts: Vec<String> = scripts.map(|script| script.replace("{}", &word)).collect();
    let ids: Vec<String> = (0..100).map(|number| format!("s{number}")).collect();
    let starting = ids.iter().zip(&scripts).map(|(id, script)| runner.script(id, script));
    let pids = futures_util::future::join_all(starting).await;
    runner.until("all there", |_| sleeping(&word).len() >= 160).await;
    let began = sexton::clock::timer();
    let ends = futures_util::future::join_all(ids.iter().map(|id| runner.force(id, 1))).await;
    let took = began.elapsed();
    assert_eq!(sleeping(&word), Vec::<i32>::new());
    assert!(ends.iter().all(|(status, answer)| *status == 200 && answer["outcome"] == json!("stopped")), "{ends:?}");
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    eprintln!("a hundred trees were ended in {} ms", took.as_millis());
    assert!(took < 2 * longest, "{took:?}");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_group_holds_what_a_killed_shim_left_even_if_that_cleared_its_environment() {
    let Some(group) = group() else { return };
    let at = CgroupChoice::At(group.0.clone());
    let runner = TestRunner::start_with(|settings| settings.cgroup = at).await;
    let word = unique();
    let pid = runner.script("s1", &format!("(env -i setsid sleep {word} &); exec cat")).await;
    let tree = runner.until_tracked("s1", "held", |one| one["containment"] == "cgroup" && sleeping(&word).len() == 1);
    tree.await;
    kill(parent(pid), "KILL");
    runner.until("recorded", |list| ended(list, "s1").is_some()).await;
    assert_eq!(sleeping(&word), Vec::<i32>::new());
    assert_eq!(group.leaves(), 0);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_whose_whole_folder_was_removed_is_not_taken_for_dead() {
    let runner = TestRunner::start().await;
    let pid = runner.sample("s1", &["idle"]).await;
    let (folder, aside) = (runner.state().join("sessions/s1"), runner.home.path().join("aside"));
    std::fs::rename(&folder, &aside).unwrap();
    // Whoever comes to a shim takes the place of its runner, which then looks for it where it was.
    let caller = std::os::unix::net::UnixStream::connect(aside.join("s")).unwrap();
    runner.until_tracked("s1", "unknown", |one| one["generating"].is_null()).await;
    for _ in 0..50 {
        assert!(tracked(&runner.list().await, "s1").is_some() && is_alive(pid));
    }
    std::fs::rename(&aside, &folder).unwrap();
    drop(caller);
    runner.until_tracked("s1", "known again", |one| one["generating"] == false).await;
    assert_eq!(runner.say("s1", "hello").await.0, 200);
    runner.stop().await;
}
