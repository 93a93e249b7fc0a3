//! What outlives a runner: its engines, its identity, its epoch and its end records.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::daemon::{Daemon, home_of_a_past_life};
use crate::support::processes::{is_alive, parent, sleeping, unique};
use crate::support::runner::{TestRunner, ended, tracked};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_runner_loses_no_engine_and_the_next_one_stops_it_whole() {
    let home = home_of_a_past_life().await;
    let daemon = Daemon::start(&home).await;
    let word = unique();
    let pid = daemon.begin("s1", &format!("setsid sleep {word} & (env -i setsid sleep {word} &); cat")).await;
    while sleeping(&word).len() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    daemon.kill();
    let runner = TestRunner::open(home, |_| ()).await.unwrap();
    let list = runner.list().await;
    assert_eq!(
        (list["epoch"].as_i64(), tracked(&list, "s1").unwrap()["pid"].as_i64()),
        (Some(3), Some(i64::from(pid)))
    );
    assert!(is_alive(pid) && sleeping(&word).len() == 2);
    assert_eq!(runner.force("s1", 1).await.1["outcome"], "stopped");
    assert!(!is_alive(pid));
    assert_eq!(sleeping(&word), Vec::<i32>::new());
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_is_still_being_stopped_is_tracked_and_never_missing() {
    let home = home_of_a_past_life().await;
    let daemon = Daemon::start(&home).await;
    daemon.begin("s1", "trap '' TERM; while :; do sleep 0.05; done").await;
    let body = json!({"session_id": "s1", "generation": 1, "mode": "force", "reason": "stray"});
    let asking = tokio::spawn(daemon.post("end", &body).send());
    while !home.path().join("state/sessions/s1/end.json").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    daemon.kill();
    let _ = asking.await;
    let runner = TestRunner::open(home, |_| ()).await.unwrap();
    loop {
        let list = runner.list().await;
        let tracked = list["tracked"].as_array().unwrap().len();
        let recorded = usize::from(ended(&list, "s1").is_some());
        assert!(tracked + recorded >= 1, "{list}");
        if recorded == 1 && tracked == 0 {
            break;
        }
    }
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_killed_at_any_moment_of_a_start_leaves_nothing_unaccounted() {
    let mut home = home_of_a_past_life().await;
    let word = unique();
    for trial in 0..10_u64 {
        let daemon = Daemon::start(&home).await;
        let id = format!("s{trial}");
        let script = format!("setsid sleep {word} & cat");
        let body = json!({"session_id": id, "generation": 1, "engine": "sh", "cwd": "/", "args": [script]});
        let asking = tokio::spawn(daemon.post("start", &body).send());
        while !home.path().join("state/sessions").join(&id).exists() {
            tokio::time::sleep(std::time::Duration::from_micros(100)).await;
        }
        tokio::time::sleep(std::time::Duration::from_micros(trial * 1_500)).await;
        daemon.kill();
        let _ = asking.await.unwrap();
        let intent = home.path().join("state/sessions").join(&id).join("start.1.json").exists();
        let runner = TestRunner::open(home, |_| ()).await.unwrap();
        let list = runner.until("settled", |list| tracked(list, &id).is_none_or(|it| it["pid"].is_i64())).await;
        let known = tracked(&list, &id).is_some() || ended(&list, &id).is_some();
        assert_eq!(known, intent, "trial {trial}: {list}");
        runner.force(&id, 1).await;
        assert_eq!(sleeping(&word), Vec::<i32>::new(), "trial {trial}");
        home = runner.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_outlives_its_runner_keeps_its_reason() {
    let home = home_of_a_past_life().await;
    let daemon = Daemon::start(&home).await;
    let pid = daemon.begin("s1", "trap '' TERM; while :; do sleep 0.05; done").await;
    let body = json!({"session_id": "s1", "generation": 1, "mode": "force", "reason": "stray", "sweep_id": "sweep-5"});
    let asking = tokio::spawn(daemon.post("end", &body).send());
    while !home.path().join("state/sessions/s1/end.json").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    daemon.kill();
    assert!(asking.await.unwrap().is_err(), "nobody was told that it is stopped");
    let runner = TestRunner::open(home, |_| ()).await.unwrap();
    let list = runner.until("settled", |list| ended(list, "s1").is_some()).await;
    assert!(!is_alive(pid));
    let record = ended(&list, "s1").unwrap();
    assert_eq!((record["reason"].as_str(), record["sweep_id"].as_str()), (Some("stray"), Some("sweep-5")));
    assert_eq!(record["exit"]["signal"], 9);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shim_and_runner_killed_together_leave_nothing_marked() {
    let home = home_of_a_past_life().await;
    let daemon = Daemon::start(&home).await;
    let word = unique();
    let pid = daemon.begin("s1", &format!("setsid sleep {word} & cat")).await;
    while sleeping(&word).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let shim = parent(pid);
    // The runner first, so that it cannot tidy up.
    daemon.kill();
    crate::support::processes::kill(shim, "KILL");
    let runner = TestRunner::open(home, |_| ()).await.unwrap();
    let list = runner.until("recorded", |list| ended(list, "s1").is_some()).await;
    assert!(!is_alive(pid));
    assert_eq!(sleeping(&word), Vec::<i32>::new());
    let record = ended(&list, "s1").unwrap();
    assert_eq!((record["reason"].as_str(), record["containment"].as_str()), (Some("exited"), Some("best_effort")));
    runner.stop().await;
}

/// Leaves a folder as a runner and its shims leave it when the power goes.
fn power_cut(home: &tempfile::TempDir, id: &str, start: &str) {
    let folder = home.path().join("state/sessions").join(id);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("start.4.json"), start).unwrap();
}

fn started_in(boot: &str) -> String {
    json!({"engine": "sample", "cwd": "/", "owner_id": null, "boot_id": boot, "at": "2026-01-01T00:00:00.000Z"})
        .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reboot_ends_engines_as_host_reboot_but_a_stop_that_had_begun_keeps_its_reason() {
    let home = home_of_a_past_life().await;
    power_cut(&home, "s1", &started_in("another-boot"));
    power_cut(&home, "s2", &started_in("another-boot"));
    let intent = json!({"generation": 4, "reason": "idle", "sweep_id": "sweep-9"});
    std::fs::write(home.path().join("state/sessions/s2/end.json"), intent.to_string()).unwrap();
    let runner = TestRunner::open(home, |_| ()).await.unwrap();
    let list = runner.list().await;
    let (one, two) = (ended(&list, "s1").unwrap(), ended(&list, "s2").unwrap());
    assert_eq!((one["reason"].as_str(), one["generation"].as_i64()), (Some("host_reboot"), Some(4)));
    assert_eq!((two["reason"].as_str(), two["sweep_id"].as_str()), (Some("idle"), Some("sweep-9")));
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_is_set_aside_named_and_still_an_end() {
    let runner = TestRunner::start().await;
    runner.sample("s1", &["idle"]).await;
    runner.force("s1", 1).await;
    let home = runner.stop().await;
    std::fs::write(home.path().join("state/ended/s1.1.json"), "{\"ended\":").unwrap();
    std::fs::write(home.path().join("state/ended/what"), "?").unwrap();
    power_cut(&home, "s2", "not json");
    let runner = TestRunner::open(home, |_| ()).await.unwrap();
    let health = runner.get("/coding/health").await;
    let damaged: Vec<_> = health["damaged"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(damaged.len(), 3, "{health}");
    for name in ["s1.1.json", "what", "start.4.json"] {
        assert!(damaged.iter().any(|sentence| sentence.contains(&format!("{name} was damaged"))), "{name}: {health}");
    }
    let list = runner.list().await;
    for (id, generation) in [("s1", 1), ("s2", 4)] {
        let record = ended(&list, id).unwrap();
        assert_eq!((record["reason"].as_str(), record["generation"].as_i64()), (Some("exited"), Some(generation)));
        assert_eq!(runner.force(id, generation).await.1["outcome"], "already_stopped");
    }
    let home = runner.stop().await;
    let runner = TestRunner::open(home, |_| ()).await.unwrap();
    assert_eq!(runner.get("/coding/health").await["damaged"].as_array().unwrap().len(), 3, "still there to be seen");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_leaves_the_engines_and_the_next_runner_holds_them() {
    let runner = TestRunner::start().await;
    let pid = runner.sample("s1", &["idle"]).await;
    runner.until_tracked("s1", "waiting", |one| one["generating"] == false).await;
    runner.clock.advance(1_000);
    let before = tracked(&runner.list().await, "s1").unwrap().clone();
    let runner = runner.again().await;
    let list = runner.list().await;
    let after = tracked(&list, "s1").unwrap();
    for key in ["pid", "generation", "engine", "engine_session_id", "idle_ms", "generating", "background_tasks"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    assert_eq!(list["epoch"], 2);
    assert_eq!(runner.say("s1", "hello").await.0, 200);
    assert_eq!(runner.force("s1", 1).await.1["outcome"], "stopped");
    assert!(!is_alive(pid));
    runner.post("forget", json!({"session_id": "s1", "generation": 1})).await;
    let home = runner.stop().await;
    let runner = TestRunner::open(home, |_| ()).await.unwrap();
    assert!(ended(&runner.list().await, "s1").is_none());
    assert_eq!(runner.begin("s1", "sample", &["idle"]).await.1["highest_generation"], 1);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_folder_has_one_runner_and_one_name() {
    let runner = TestRunner::start().await;
    let refused = TestRunner::open(Arc::clone(&runner.home), |_| ()).await.err().unwrap();
    assert!(refused.to_string().starts_with("another runner uses the state folder"), "{refused}");
    assert_eq!(runner.list().await["epoch"], 1, "the one that was refused counted nothing up");
    let home = runner.stop().await;
    let renamed = TestRunner::open(Arc::clone(&home), |settings| settings.runner_id = "other".parse().unwrap()).await;
    let refused = renamed.err().unwrap().to_string();
    assert!(refused.contains("belongs to the runner \"runner-1\", but this one is called \"other\""), "{refused}");
    std::fs::write(home.path().join("state/epoch"), "many").unwrap();
    let refused = TestRunner::open(home, |_| ()).await.err().unwrap().to_string();
    assert!(refused.contains("epoch is damaged"), "a lost epoch is never guessed: {refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_folder_keeps_its_id_and_a_lost_one_is_told_from_it() {
    let state_id = async |home| {
        let runner = TestRunner::open(home, |_| ()).await.unwrap();
        let told = runner.list().await["state_id"].as_str().unwrap().to_owned();
        (told, runner.stop().await)
    };
    let (first, home) = state_id(home_of_a_past_life().await).await;
    let (again, home) = state_id(home).await;
    assert_eq!(again, first);

    // A folder from before there was an id gets one, and keeps its mark.
    let path = home.path().join("state/identity.json");
    let mut identity: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let mark = identity["mark"].clone();
    identity.as_object_mut().unwrap().remove("state_id").unwrap();
    std::fs::write(&path, identity.to_string()).unwrap();
    let (given, home) = state_id(home).await;
    let (kept, home) = state_id(home).await;
    let identity: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!((&kept, &identity["mark"]), (&given, &mark));

    std::fs::remove_dir_all(home.path().join("state")).unwrap();
    let (lost, _home) = state_id(home).await;
    assert_ne!(lost, kept);
}
