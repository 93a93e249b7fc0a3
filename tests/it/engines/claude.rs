//! Claude Code itself.

use std::path::Path;

use sexton::runner::{AdapterKind, EngineSpec};

use crate::engines::real::{self, Kind, Real, spec};
use crate::engines::reaped;

const CLAUDE: Kind = Kind { program: "claude", spec: unasked, tells_the_model: true };
const ASKING: Kind = Kind { program: "claude", spec: asking, tells_the_model: true };

const COMMAND: [&str; 6] = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];

fn with(program: &Path, home: &Path, api: &str, more: &[&str]) -> EngineSpec {
    let command: Vec<&str> =
        [program.to_str().unwrap()].into_iter().chain(COMMAND).chain(more.iter().copied()).collect();
    let env = [
        ("HOME", home.to_str().unwrap()),
        ("ANTHROPIC_BASE_URL", api),
        ("ANTHROPIC_API_KEY", "none"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_TELEMETRY", "1"),
        // It refuses to run everything unasked as root otherwise.
        ("IS_SANDBOX", "1"),
    ];
    EngineSpec { adapter: AdapterKind::Claude, ..spec(&command, &env) }
}

fn unasked(program: &Path, home: &Path, api: &str) -> EngineSpec {
    with(program, home, api, &["--permission-mode", "bypassPermissions"])
}

fn asking(program: &Path, home: &Path, api: &str) -> EngineSpec {
    with(program, home, api, &["--permission-prompt-tool", "stdio"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_an_idle_reap_and_a_resumption() {
    real::a_turn_an_idle_reap_and_a_resumption(&CLAUDE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reaped_by_a_sweep_and_written_to_it_goes_on() {
    let Some(Real { runner, api, .. }) = Real::start(&CLAUDE).await else { return };
    reaped::a_message_is_refused_and_then_goes_on(runner, &api, "real").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn background_work_keeps_it() {
    real::background_work_keeps_it(&CLAUDE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_turn_ends_and_the_next_one_works() {
    real::an_interrupted_turn_ends_and_the_next_one_works(&CLAUDE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cleared_conversation_is_forgotten() {
    real::a_cleared_conversation_is_forgotten(&CLAUDE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_outlives_it() {
    real::nothing_outlives_it(&CLAUDE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_told_and_a_message_refuses_it() {
    let Some(real) = Real::start(&ASKING).await else { return };
    real.begin(1, None).await;
    let file = real.runner.home.path().join("made");
    real.say(&format!("@sh touch {}", file.display())).await;
    real.runner.until_tracked("s1", "asking", |one| one["awaiting_input"] == true).await;
    real.turn("@say something else").await;
    assert!(!file.exists(), "a message grants nothing");
    real.force(1).await;
    real.runner.stop().await;
}
