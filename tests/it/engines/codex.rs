//! Codex itself.

use std::path::Path;

use serde_json::json;
use sexton::runner::{AdapterKind, EngineSpec};

use crate::engines::real::{self, Kind, Real, spec};
use crate::engines::reaped;

const CODEX: Kind = Kind { program: "codex", spec: unasked, tells_the_model: false };
const ASKING: Kind = Kind { program: "codex", spec: asking, tells_the_model: false };

fn with(program: &Path, home: &Path, api: &str, policy: &str) -> EngineSpec {
    let folder = home.join("codex");
    std::fs::create_dir_all(&folder).unwrap();
    let config = format!(
        "model = \"mock\"\nmodel_provider = \"mock\"\n{policy}\n[model_providers.mock]\nname = \"mock\"\n\
         base_url = \"{api}/v1\"\nwire_api = \"responses\"\nenv_key = \"MOCK_KEY\"\n"
    );
    std::fs::write(folder.join("config.toml"), config).unwrap();
    let env = [("HOME", home.to_str().unwrap()), ("CODEX_HOME", folder.to_str().unwrap()), ("MOCK_KEY", "none")];
    EngineSpec { adapter: AdapterKind::Codex, ..spec(&[program.to_str().unwrap(), "app-server"], &env) }
}

fn unasked(program: &Path, home: &Path, api: &str) -> EngineSpec {
    with(program, home, api, "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"")
}

fn asking(program: &Path, home: &Path, api: &str) -> EngineSpec {
    with(program, home, api, "approval_policy = \"on-request\"\nsandbox_mode = \"workspace-write\"")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_an_idle_reap_and_a_resumption() {
    real::a_turn_an_idle_reap_and_a_resumption(&CODEX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reaped_by_a_sweep_and_written_to_it_goes_on() {
    let Some(Real { runner, api, .. }) = Real::start(&CODEX).await else { return };
    reaped::a_message_is_refused_and_then_goes_on(runner, &api, "real").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn background_work_keeps_it() {
    real::background_work_keeps_it(&CODEX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_turn_ends_and_the_next_one_works() {
    real::an_interrupted_turn_ends_and_the_next_one_works(&CODEX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cleared_conversation_is_forgotten() {
    real::a_cleared_conversation_is_forgotten(&CODEX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_outlives_it() {
    real::nothing_outlives_it(&CODEX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_whose_conversation_is_not_there_says_so_at_once() {
    let Some(real) = Real::start(&CODEX).await else { return };
    real.begin(1, Some("00000000-0000-7000-8000-000000000000")).await;
    let (status, answer) = real.runner.say("s1", "@say anything").await;
    assert_eq!((status, answer["outcome"].as_str()), (503, Some("busy")), "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("no rollout found"), "{answer}");
    let health = real.runner.get("/coding/health").await;
    assert!(health["troubles"][0].as_str().unwrap().contains("no rollout found"), "{health}");
    real.force(1).await;
    real.runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_told_and_a_message_refuses_it() {
    let Some(real) = Real::start(&ASKING).await else { return };
    real.begin(1, None).await;
    let file = real.runner.home.path().join("made");
    let call = json!({"cmd": format!("touch {}", file.display()), "sandbox_permissions": "require_escalated",
                      "justification": "as told"});
    real.say(&format!("@tool exec_command {call}")).await;
    real.runner.until_tracked("s1", "asking", |one| one["awaiting_input"] == true).await;
    real.turn("@say something else").await;
    assert!(!file.exists(), "a message grants nothing");
    real.force(1).await;
    real.runner.stop().await;
}
