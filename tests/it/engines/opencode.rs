//! The real OpenCode under a whole runner, where it is installed.

use serde_json::{Value, json};
use sexton::runner::{AdapterKind, EngineSpec};
use sexton::time::HOUR;

use crate::engines::installed::{installed, opencode_env};
use crate::engines::reaped;
use crate::support::model_api::ModelApi;
use crate::support::processes::{is_alive, sleeping, unique};
use crate::support::runner::TestRunner;

/// A runner that has OpenCode, and a model that does what it is told.
struct World {
    runner: TestRunner,
    api: ModelApi,
    _home: tempfile::TempDir,
}

impl World {
    async fn start() -> Option<Self> {
        let program = installed("opencode")?;
        let (api, home) = (ModelApi::start().await, tempfile::tempdir().unwrap());
        let spec = EngineSpec {
            adapter: AdapterKind::Opencode,
            command: vec![program.display().to_string(), "serve".to_owned()],
            env: opencode_env(home.path(), &api.base_url),
            ..EngineSpec::default()
        };
        let runner =
            TestRunner::start_with(move |settings| drop(settings.engines.insert("opencode".to_owned(), spec))).await;
        Some(Self { runner, api, _home: home })
    }

    async fn open(&self, generation: i64, conversation: &Value) -> i32 {
        let body = json!({"session_id": "s1", "generation": generation, "engine": "opencode",
                          "cwd": self.runner.home.path(), "engine_session_id": conversation});
        let (status, answer) = self.runner.post("start", body).await;
        assert_eq!(status, 200, "{answer}");
        self.idle().await;
        i32::try_from(answer["session"]["pid"].as_i64().unwrap()).unwrap()
    }

    async fn say(&self, generation: i64, text: &str) {
        let body = json!({"session_id": "s1", "generation": generation, "text": text});
        assert_eq!(self.runner.post("messages", body).await.0, 200);
    }

    async fn idle(&self) -> Value {
        let is_idle = |one: &Value| one["engine_session_id"].is_string() && one["generating"] == false;
        self.runner.until_tracked("s1", "idle", is_idle).await
    }

    /// Waits until the model was asked something with this word in it: a message that the server is slow to take up
    /// is given up after a while, and its turn is told only when it begins.
    async fn asked(&self, word: &str) {
        self.runner.until("asked", |_| self.api.asked().iter().any(|text| text.contains(word))).await;
    }

    async fn generating(&self) {
        self.runner.until_tracked("s1", "generating", |one| one["generating"] == true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_an_idle_reap_that_leaves_nothing_and_a_resume_with_context() {
    let Some(world) = World::start().await else { return };
    let word = unique();
    let pid = world.open(1, &Value::Null).await;
    world.say(1, "@say first-thing").await;
    // Not into the running turn: OpenCode may end that without an answer to a message that came late.
    world.asked("first-thing").await;
    world.idle().await;
    world.say(1, &format!("@sh nohup sleep {word} >/dev/null 2>&1 &")).await;
    world.runner.until("left", |_| sleeping(&word).len() == 1).await;
    let conversation = world.idle().await["engine_session_id"].clone();
    let mut answer = Value::Null;
    // A server that is slow says the last of a turn only after the clock was moved: then the window begins anew.
    for _ in 0..5 {
        world.runner.clock.advance(7 * HOUR);
        answer = world.runner.end_if_idle("s1").await.1;
        if answer["because"] != "active" {
            break;
        }
        world.idle().await;
    }
    assert_eq!(answer["outcome"], "stopped", "{answer}");
    assert!(!is_alive(pid) && sleeping(&word).is_empty());
    world.open(2, &conversation).await;
    world.say(2, "@recall").await;
    world.asked("@recall").await;
    let over = world.idle().await;
    assert_eq!(over["engine_session_id"], conversation);
    assert!(world.api.said().iter().any(|text| text == "recalled: first-thing"), "{:?}", world.api.said());
    world.runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reaped_by_a_sweep_and_written_to_it_goes_on() {
    let Some(World { runner, api, _home }) = World::start().await else { return };
    reaped::a_message_is_refused_and_then_goes_on(runner, &api, "opencode").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_works_is_kept_and_an_interrupt_ends_it_with_its_tool() {
    let Some(world) = World::start().await else { return };
    let word = unique();
    world.open(1, &Value::Null).await;
    world.say(1, &format!("@sh sleep {word}")).await;
    world.runner.until("at work", |_| sleeping(&word).len() == 1).await;
    world.generating().await;
    assert_eq!(world.runner.end_if_idle("s1").await.1["outcome"], "refused");
    let body = json!({"session_id": "s1", "generation": 1});
    assert_eq!(world.runner.post("interrupt", body).await.0, 200);
    world.idle().await;
    world.runner.until("aborted", |_| sleeping(&word).is_empty()).await;
    world.runner.stop().await;
}
