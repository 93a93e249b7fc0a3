//! The path of one engine: start, list, message, touch, end, forget.

use serde_json::json;
use sexton::time::HOUR;

use crate::support::processes::is_alive;
use crate::support::runner::{QUIET, TestRunner, ended, tracked};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_is_started_listed_stopped_and_forgotten() {
    let runner = TestRunner::start().await;
    let pid = runner.sample("s1", &["idle"]).await;
    let one = runner.until_tracked("s1", "waiting", |one| one["engine_session_id"].is_string()).await;
    assert_eq!((one["generation"].as_i64(), one["engine"].as_str()), (Some(1), Some("sample")));
    assert_eq!((one["generating"].as_bool(), one["background_tasks"].as_i64()), (Some(false), Some(0)));
    assert_eq!(one["containment"], "subreaper");
    assert!(one["rss_bytes"].as_i64().unwrap() > 0 && one["cpu_ms"].is_i64(), "{one}");

    runner.clock.advance(QUIET);
    let (status, answer) = runner.end_if_idle("s1").await;
    assert_eq!((status, answer["outcome"].as_str()), (200, Some("stopped")), "{answer}");
    assert!(!is_alive(pid), "gone before it is said");
    assert_eq!((answer["reason"].as_str(), answer["sweep_id"].as_str()), (Some("idle"), Some("sweep-1")));
    assert_eq!((answer["exit"]["code"].as_i64(), answer["not_freed"].as_array().map(Vec::len)), (Some(0), Some(0)));
    assert!(answer["freed_bytes"].as_i64().unwrap() > 0, "{answer}");
    let stages: Vec<_> = answer["stages"].as_array().unwrap().iter().map(|it| it["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["stdin_closed", "empty"]);
    assert_eq!(answer["ended_ago_ms"], 0);
    assert_eq!(answer["resume"]["command"][1], one["engine_session_id"]);

    runner.clock.sleep(1_000);
    let list = runner.list().await;
    assert!(tracked(&list, "s1").is_none());
    let record = ended(&list, "s1").unwrap();
    assert_eq!((record["reason"].as_str(), record["ended_ago_ms"].as_i64()), (Some("idle"), Some(1_000)));

    let again = runner.force("s1", 1).await;
    assert_eq!((again.0, again.1["outcome"].as_str()), (200, Some("already_stopped")));
    assert_eq!(again.1["reason"], "idle", "the first reason stays");
    for _ in 0..2 {
        let forgotten = runner.post("forget", json!({"session_id": "s1", "generation": 1})).await;
        assert_eq!(forgotten.0, 200, "{}", forgotten.1);
    }
    assert!(ended(&runner.list().await, "s1").is_none());
    let (status, answer) = runner.begin("s1", "sample", &["idle"]).await;
    assert_eq!((status, answer["highest_generation"].as_i64()), (409, Some(1)), "remembered after it is forgotten");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_and_touches_are_told_what_became_of_the_engine() {
    let runner = TestRunner::start().await;
    assert_eq!(runner.touch("s1").await.0, 404);
    assert_eq!(runner.say("s1", "x").await.1["outcome"], "not_tracked");
    runner.sample("s1", &["puppet"]).await;
    runner.clock.advance(1_000);
    let (status, answer) = runner.touch("s1").await;
    assert_eq!((status, answer["outcome"].as_str()), (200, Some("touched")));
    assert_eq!(answer["session"]["idle_ms"], 0);
    assert_eq!(runner.say("s1", r#"{"type":"turn_started"}"#).await.0, 200);
    runner.until_tracked("s1", "generating", |one| one["generating"] == true).await;
    let other = json!({"session_id": "s1", "generation": 2, "kind": "capture"});
    let (status, answer) = runner.post("touch", other).await;
    assert_eq!((status, answer["outcome"].as_str()), (409, Some("generation")));
    assert_eq!(answer["highest_generation"], 1);

    assert_eq!(runner.force("s1", 1).await.0, 200);
    for (status, answer) in [runner.touch("s1").await, runner.say("s1", "x").await] {
        assert_eq!((status, answer["outcome"].as_str()), (410, Some("ended")));
        assert_eq!(answer["reason"], "ended_by_person");
    }
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_leaves_is_recorded_as_exited() {
    let runner = TestRunner::start().await;
    runner.script("s1", "echo complaint >&2; read line; exit 7").await;
    runner.say("s1", "go").await;
    let list = runner.until("ended", |list| ended(list, "s1").is_some()).await;
    let record = ended(&list, "s1").unwrap();
    assert_eq!((record["reason"].as_str(), record["exit"]["code"].as_i64()), (Some("exited"), Some(7)));
    assert!(record["detail"].as_str().unwrap().contains("complaint"), "{record}");
    let (status, answer) = runner.end_if_idle("s1").await;
    assert_eq!((status, answer["outcome"].as_str()), (200, Some("already_stopped")));
    assert_eq!(answer["reason"], "exited");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_while_it_is_being_stopped_joins_and_is_told_the_first_reason() {
    let runner = TestRunner::start().await;
    runner.sample("s1", &["stays"]).await;
    runner.clock.advance(QUIET);
    let first = runner.end_if_idle("s1");
    let second = async {
        // A listing says nothing of a stop, and a touch would keep it away: its intent on disk tells that it began.
        let intent = runner.state().join("sessions/s1/end.json");
        while !intent.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let joined = runner.force("s1", 1).await;
        (runner.list().await, joined)
    };
    let touched = async {
        let intent = runner.state().join("sessions/s1/end.json");
        while !intent.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        (runner.touch("s1").await, runner.list().await)
    };
    let (first, (after, second), (touched, during)) = tokio::join!(first, second, touched);
    assert_eq!(first.1["outcome"], "stopped", "{}", first.1);
    assert_eq!((second.0, second.1["outcome"].as_str()), (200, Some("already_stopped")), "{}", second.1);
    assert_eq!((second.1["reason"].as_str(), touched.1["reason"].as_str()), (Some("idle"), Some("idle")));
    assert_eq!((touched.0, touched.1["outcome"].as_str()), (410, Some("ended")));
    assert!(tracked(&during, "s1").is_some(), "tracked until it is proven gone");
    assert!(tracked(&after, "s1").is_none() && ended(&after, "s1").is_some());
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_is_listed_for_ninety_days_at_most() {
    let runner = TestRunner::start().await;
    runner.sample("s1", &["idle"]).await;
    runner.force("s1", 1).await;
    runner.clock.sleep(90 * 24 * HOUR);
    assert!(ended(&runner.list().await, "s1").is_some());
    runner.clock.sleep(1);
    assert!(ended(&runner.list().await, "s1").is_none());
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_expires_while_its_runner_lives() {
    let runner = TestRunner::start().await;
    assert_eq!(runner.get("/coding/health").await["pid"], std::process::id());
    let kept = || std::fs::read_dir(runner.state().join("ended")).unwrap().count();
    runner.sample("s1", &["idle"]).await;
    runner.force("s1", 1).await;
    assert_eq!(kept(), 1);
    runner.clock.advance(90 * 24 * HOUR + 1);
    runner.sample("s2", &["idle"]).await;
    runner.force("s2", 1).await;
    let list = runner.until("s1 expired", |list| ended(list, "s1").is_none() && kept() == 1).await;
    assert!(ended(&list, "s2").is_some());
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_of_a_conversation_that_is_too_long_is_ignored() {
    let runner = TestRunner::start().await;
    let script = r#"say() { echo "{\"type\":\"session\",\"engine_session_id\":\"$1\"}"; }
        say good; say "$(head -c 300 /dev/zero | tr '\0' x)"; say 'a\u001b'; echo '{"type":"turn_started"}'; cat"#;
    runner.script("s1", script).await;
    let one = runner.until_tracked("s1", "read past it", |one| one["generating"] == true).await;
    assert_eq!(one["engine_session_id"], "good");
    runner.stop().await;
}
