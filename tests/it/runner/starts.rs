//! Starting: one engine per session, and a clear answer when there is none.

use serde_json::json;
use sexton::config::{Environment, Sources, load};

use crate::support::processes::{is_alive, parent, visible};
use crate::support::runner::{SECRET, TestRunner, ended};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_starts_of_one_session_start_one_engine() {
    let runner = TestRunner::start().await;
    let starts = (0..16).map(|_| runner.begin("s1", "sample", &["idle"]));
    let answers = futures_util::future::join_all(starts).await;
    let pids: std::collections::BTreeSet<_> =
        answers.iter().map(|(status, answer)| (*status, answer["session"]["pid"].as_i64().unwrap())).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_only_the_same_conversation_will_do_no_fresh_one_is_begun() {
    for (resumes, conversation, expected) in
        [(false, json!("c-1"), 400), (true, json!(null), 400), (true, json!("c-1"), 200)]
    {
        let runner = TestRunner::start_with(|settings| {
            let sample = settings.engines.get_mut("sample").unwrap();
            sample.resume = if resumes { sample.command.clone() } else { Vec::new() };
        })
        .await;
        let body = json!({"session_id": "s1", "generation": 1, "engine": "sample", "cwd": "/", "args": ["idle"],
                          "engine_session_id": conversation, "must_resume": true});
        let (status, answer) = runner.post("start", body).await;
        assert_eq!(status, expected, "{answer}");
        let told = answer["message"].as_str().is_some_and(|why| why.contains("engines.sample.resume"));
        assert_eq!(told, !resumes, "{answer}");
        assert_eq!(runner.get("/coding/health").await["sessions"], i64::from(expected == 200));
        runner.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_higher_generation_adopts_the_living_engine() {
    let runner = TestRunner::start().await;
    let pid = runner.sample("s1", &["idle"]).await;
    let (status, answer) = runner.begin_as("s1", 3, "sample", &["idle"]).await;
    assert_eq!((status, answer["session"]["pid"].as_i64()), (200, Some(i64::from(pid))));
    assert_eq!((answer["generation"].as_i64(), answer["session"]["generation"].as_i64()), (Some(3), Some(3)));
    let (status, answer) = runner.begin_as("s1", 2, "sample", &["idle"]).await;
    assert_eq!((status, answer["highest_generation"].as_i64()), (409, Some(3)));
    let (status, answer) = runner.force("s1", 1).await;
    assert_eq!((status, answer["because"].as_str()), (409, Some("generation")), "a late end reaches no successor");
    assert!(is_alive(pid));
    assert_eq!(runner.force("s1", 3).await.0, 200);
    assert_eq!(runner.force("s1", 1).await.1["highest_generation"], 3);
    assert_eq!(runner.force("s1", 4).await.1["outcome"], "not_tracked");
    assert_eq!(runner.begin_as("s1", 3, "sample", &["idle"]).await.0, 409);
    assert_eq!(runner.begin_as("s1", 4, "sample", &["idle"]).await.0, 200);
    assert_eq!(runner.force("s1", 3).await.1["outcome"], "already_stopped", "and leaves its successor alone");
    assert_eq!(runner.list().await["tracked"].as_array().unwrap().len(), 1);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_did_not_start_is_said_and_recorded() {
    let runner = TestRunner::start().await;
    let (status, answer) = runner.begin("s0", "nobody", &[]).await;
    assert_eq!((status, answer["outcome"].as_str()), (400, Some("unknown_engine")));
    assert_eq!(answer["engines"], json!(["gone", "sample", "sh"]));
    let cases = [
        ("s1", "gone", vec![], "No such file"),
        ("s2", "sample", vec!["fails"], "exit code 3; sample engine: no licence found"),
        ("s3", "sh", vec!["sleep 4000 & exit 0"], "exit code 0"),
    ];
    for (id, engine, args, expected) in cases {
        let (status, answer) = runner.begin(id, engine, &args).await;
        assert_eq!((status, answer["outcome"].as_str()), (422, Some("start_failed")), "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(expected), "{answer}");
    }
    let body = json!({"session_id": "s4", "generation": 1, "engine": "sample", "cwd": "/no/such/folder"});
    let (status, answer) = runner.post("start", body).await;
    assert_eq!((status, answer["outcome"].as_str()), (422, Some("start_failed")));
    assert!(answer["message"].as_str().unwrap().contains("/no/such/folder"), "{answer}");
    let list = runner.list().await;
    for id in ["s1", "s2", "s3", "s4"] {
        assert_eq!(ended(&list, id).unwrap()["reason"], "start_failed", "{id}");
    }
    assert_eq!(list["tracked"], json!([]));
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_makes_no_sense_is_refused_whole() {
    let runner = TestRunner::start().await;
    let good = json!({"session_id": "s1", "generation": 1, "engine": "sample", "cwd": "/"});
    let changes = [
        ("session_id", json!("../s1")),
        ("session_id", json!("a".repeat(65))),
        ("generation", json!(0)),
        ("cwd", json!("relative")),
        ("args", json!(["zero\0byte"])),
        ("env", json!({"A=B": "c"})),
    ];
    for (key, value) in changes {
        let mut body = good.clone();
        body[key] = value;
        let (status, answer) = runner.post("start", body).await;
        assert_eq!((status, answer["outcome"].as_str()), (400, Some("bad_request")), "{key}: {answer}");
    }
    let list = runner.list().await;
    assert_eq!((&list["tracked"], &list["ended"]), (&json!([]), &json!([])));
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_secret_and_the_runners_own_environment_never_reach_an_engine() {
    let runner = TestRunner::start().await;
    let body = json!({"session_id": "s1", "generation": 1, "engine": "sample", "cwd": "/", "args": ["idle"],
                      "env": {"SEXTON_SESSION_ID": "someone-else", "WANTED": "yes"}});
    let (_, answer) = runner.post("start", body).await;
    let pid = i32::try_from(answer["session"]["pid"].as_i64().unwrap()).unwrap();
    let seen = visible(pid);
    assert!(seen.contains("SEXTON_SESSION_ID=s1\n") && seen.contains("SEXTON_RUNNER_ID=runner-1\n"), "{seen}");
    assert!(seen.contains("WANTED=yes\n") && seen.contains("PATH="), "{seen}");
    for unwanted in [SECRET, "someone-else", "CARGO_", "secret"] {
        assert!(!seen.contains(unwanted), "{unwanted}");
        assert!(!visible(parent(pid)).contains(unwanted), "{unwanted}");
    }
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_variable_that_an_engine_gets_is_accepted_by_the_settings() {
    let runner = TestRunner::start().await;
    let seen = visible(runner.sample("s1", &["idle"]).await);
    let variables: Vec<_> = seen.lines().filter_map(|line| line.split_once('=')).collect();
    for name in ["SEXTON_SESSION_ID", "SEXTON_RUNNER_ID", "SEXTON_RUNNER_MARK"] {
        assert!(variables.iter().any(|(seen, _)| *seen == name), "{name}: {seen}");
    }
    let config = runner.home.path().join("config.toml");
    std::fs::write(&config, "").unwrap();
    let sources = Sources { file: Some(config), env: Environment::from_iter(variables) };
    load(&sources).unwrap();
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_without_end_harms_nothing() {
    let runner = TestRunner::start().await;
    let script = r#"head -c 20000000 /dev/zero | tr '\0' x; echo; echo '{"type":"turn_started"}'; cat"#;
    runner.script("s1", script).await;
    runner.until_tracked("s1", "read past it", |one| one["generating"] == true).await;
    runner.stop().await;
}
