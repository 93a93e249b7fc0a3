//! An agent of the Agent Client Protocol under a whole runner: the small one of the samples, and OpenCode's where it is.

use serde_json::{Value, json};
use sexton::runner::{AdapterKind, EngineSpec};
use sexton::time::HOUR;

use crate::engines::installed::{installed, opencode_env};
use crate::support::model_api::ModelApi;
use crate::support::processes::{is_alive, sleeping, unique};
use crate::support::runner::{TestRunner, ended};

async fn runner() -> TestRunner {
    let command = [env!("CARGO_BIN_EXE_sexton"), "sample-engine", "acp"].map(str::to_owned).to_vec();
    with(EngineSpec { adapter: AdapterKind::Acp, command, ..EngineSpec::default() }).await
}

async fn with(spec: EngineSpec) -> TestRunner {
    TestRunner::start_with(move |settings| drop(settings.engines.insert("agent".to_owned(), spec))).await
}

async fn idle(runner: &TestRunner) -> Value {
    runner.until_tracked("s1", "idle", |one| one["engine_session_id"].is_string() && one["generating"] == false).await
}

async fn resumed(runner: &TestRunner, conversation: &Value) {
    let body = json!({"session_id": "s1", "generation": 2, "engine": "agent", "cwd": runner.home.path(),
                      "engine_session_id": conversation});
    assert_eq!(runner.post("start", body).await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_an_interrupt_and_an_idle_reap_that_leaves_nothing() {
    let (runner, word) = (runner().await, unique());
    let (status, started) = runner.begin("s1", "agent", &[]).await;
    assert_eq!(status, 200, "{started}");
    idle(&runner).await;
    assert_eq!(runner.say("s1", &format!("@leave {word}")).await.0, 200);
    runner.until("left", |_| sleeping(&word).len() == 1).await;
    idle(&runner).await;
    assert_eq!(runner.say("s1", "@stall").await.0, 200);
    runner.until_tracked("s1", "generating", |one| one["generating"] == true).await;
    runner.clock.advance(7 * HOUR);
    let (_, refused) = runner.end_if_idle("s1").await;
    assert_eq!(refused["outcome"], "stopped", "a turn that was silent for so long protects no more: {refused}");
    assert_eq!(sleeping(&word), Vec::<i32>::new());
    let pid = i32::try_from(started["session"]["pid"].as_i64().unwrap()).unwrap();
    assert!(!is_alive(pid) && ended(&runner.list().await, "s1").is_some());
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_ends_the_turn_and_a_permission_is_waited_for() {
    let runner = runner().await;
    assert_eq!(runner.begin("s1", "agent", &[]).await.0, 200);
    idle(&runner).await;
    for text in ["@stall", "@ask"] {
        assert_eq!(runner.say("s1", text).await.0, 200);
        runner.until_tracked("s1", "generating", |one| one["generating"] == true).await;
        if text == "@ask" {
            runner.until_tracked("s1", "asked", |one| one["awaiting_input"] == true).await;
        }
        let body = json!({"session_id": "s1", "generation": 1});
        assert_eq!(runner.post("interrupt", body).await.0, 200);
        let over = idle(&runner).await;
        assert_eq!(over["awaiting_input"], false);
    }
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_taken_up_with_its_context() {
    let runner = runner().await;
    assert_eq!(runner.begin("s1", "agent", &[]).await.0, 200);
    idle(&runner).await;
    runner.say("s1", "first-thing").await;
    let conversation = idle(&runner).await["engine_session_id"].clone();
    assert_eq!(runner.force("s1", 1).await.0, 200);
    resumed(&runner, &conversation).await;
    assert_eq!(idle(&runner).await["engine_session_id"], conversation);
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_refuses_to_open_says_why_and_is_waited_for_no_more() {
    let runner = runner().await;
    resumed(&runner, &json!("no-such-conversation")).await;
    let body = json!({"session_id": "s1", "generation": 2, "text": "anything"});
    let (status, answer) = runner.post("messages", body).await;
    assert_eq!((status, answer["outcome"].as_str()), (503, Some("busy")), "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("cannot open the conversation"), "{answer}");
    let health = runner.get("/coding/health").await;
    assert!(health["troubles"][0].as_str().unwrap().contains("cannot open the conversation"), "{health}");
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_of_opencode_takes_turns_and_comes_back_with_its_context() {
    let Some(program) = installed("opencode") else { return };
    let api = ModelApi::start().await;
    let home = tempfile::tempdir().unwrap();
    let spec = EngineSpec {
        adapter: AdapterKind::Acp,
        command: vec![program.display().to_string(), "acp".to_owned()],
        env: opencode_env(home.path(), &api.base_url),
        ..EngineSpec::default()
    };
    let runner = with(spec).await;
    assert_eq!(runner.begin("s1", "agent", &[]).await.0, 200);
    idle(&runner).await;
    runner.say("s1", "@say first-thing").await;
    let conversation = idle(&runner).await["engine_session_id"].clone();
    assert_eq!(runner.force("s1", 1).await.0, 200);
    resumed(&runner, &conversation).await;
    idle(&runner).await;
    let body = json!({"session_id": "s1", "generation": 2, "text": "@recall"});
    assert_eq!(runner.post("messages", body).await.0, 200);
    idle(&runner).await;
    assert_eq!(api.asked().last().map(String::as_str), Some("@recall"));
    runner.stop().await;
}
