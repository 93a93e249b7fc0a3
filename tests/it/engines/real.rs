//! A real engine under a real runner, and the stories that every engine has to live through.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use sexton::runner::EngineSpec;
use sexton::time::HOUR;

use crate::support::model_api::ModelApi;
use crate::support::processes::{is_alive, sleeping, unique};
use crate::support::runner::{QUIET, TestRunner};

/// The session of each story.
const ID: &str = "s1";

/// An engine, and how it is started.
pub(crate) struct Kind {
    /// Its program's name.
    pub(crate) program: &'static str,
    /// Its part of the settings, given its program, a home of its own and the model's API.
    pub(crate) spec: fn(&Path, &Path, &str) -> EngineSpec,
    /// It begins a turn by itself when a background task is over.
    pub(crate) tells_the_model: bool,
}

/// A real engine under a real runner.
pub(crate) struct Real {
    pub(crate) runner: TestRunner,
    pub(crate) api: ModelApi,
    tells_the_model: bool,
}

/// Returns where an engine is installed; without it, says so or fails as `SEXTON_REQUIRE` wants.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn installed(program: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("SEXTON_TEST_ENGINES").map(|folder| PathBuf::from(folder).join("node_modules/.bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = folder.into_iter().chain(std::env::split_paths(&path)).map(|folder| folder.join(program));
    let found = found.into_iter().find(|file| file.is_file());
    if found.is_none() {
        let required = std::env::var("SEXTON_REQUIRE").unwrap_or_default();
        let required = required.split(',').any(|word| matches!(word.trim(), "engines" | "all"));
        assert!(!required, "{program} is not installed, and SEXTON_REQUIRE wants it");
        eprintln!("skipped: {program} is not installed (SEXTON_TEST_ENGINES, PATH)");
    }
    found
}

/// Waits for something that nothing tells of, for a minute at most; returns whether it came.
async fn wait_for(came: impl Fn() -> bool) -> bool {
    for _ in 0..12_000 {
        if came() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    came()
}

/// Returns the settings of an engine of this kind that every engine here has.
pub(crate) fn spec(command: &[&str], env: &[(&str, &str)]) -> EngineSpec {
    EngineSpec {
        command: command.iter().map(ToString::to_string).collect(),
        env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..EngineSpec::default()
    }
}

impl Real {
    /// Starts a runner that knows the engine, and the model's API; none where it is not installed.
    pub(crate) async fn start(kind: &Kind) -> Option<Self> {
        let program = installed(kind.program)?;
        let api = ModelApi::start().await;
        let home = std::sync::Arc::new(tempfile::tempdir().unwrap());
        let spec = (kind.spec)(&program, home.path(), &api.base_url);
        let engines = BTreeMap::from([("real".to_owned(), spec)]);
        let runner = TestRunner::open(home, |settings| {
            settings.engines = engines;
            // A cold start of a large program, on a busy machine.
            settings.graces.stdin = 5_000;
            // A stop goes on as soon as the turn and the tasks are over; before that it would begin a turn about them.
            settings.graces.interrupt = 10_000;
        });
        let runner = runner.await.expect("the state folder is fresh");
        Some(Self { runner, api, tells_the_model: kind.tells_the_model })
    }

    /// Starts the engine, with the conversation that is to be taken up again.
    pub(crate) async fn begin(&self, generation: i64, conversation: Option<&str>) {
        let body = json!({"session_id": ID, "generation": generation, "engine": "real", "engine_session_id": conversation,
                          "cwd": self.runner.home.path()});
        let (status, answer) = self.runner.post("start", body).await;
        assert_eq!(status, 200, "{answer}");
    }

    /// Says something to it in its first generation.
    pub(crate) async fn say(&self, text: &str) {
        self.say_as(1, text).await;
    }

    async fn say_as(&self, generation: i64, text: &str) {
        let body = json!({"session_id": ID, "generation": generation, "text": text});
        let (status, answer) = self.runner.post("messages", body).await;
        assert_eq!(status, 200, "{answer}");
    }

    /// Waits until the model was asked something with this word in it.
    pub(crate) async fn asked(&self, word: &str) {
        let is_asked = || self.api.asked().iter().any(|text| text.contains(word));
        assert!(wait_for(is_asked).await, "never asked {word:?}: {:?}, {}", self.api.asked(), self.runner.list().await);
    }

    /// Waits until it is in this state.
    pub(crate) async fn until(&self, generating: bool, tasks: u64) -> Value {
        let fits = |one: &Value| one["generating"] == generating && one["background_tasks"] == tasks;
        self.runner.until_tracked(ID, &format!("generating={generating} tasks={tasks}"), fits).await
    }

    /// Says something, and waits until its turn is over.
    pub(crate) async fn turn(&self, text: &str) -> Value {
        self.say(text).await;
        self.asked(text.lines().next().unwrap()).await;
        self.until(false, 0).await
    }

    /// Tries to end it as idle, and returns why that was refused, or that it was not.
    pub(crate) async fn end_if_idle(&self) -> String {
        let (status, answer) = self.runner.end_if_idle(ID).await;
        let word = if status == 200 { "outcome" } else { "because" };
        answer[word].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Ends it on a person's behalf.
    pub(crate) async fn force(&self, generation: i64) -> Value {
        let (status, answer) = self.runner.force(ID, generation).await;
        assert_eq!((status, answer["outcome"].as_str()), (200, Some("stopped")), "{answer}");
        answer
    }

    /// Starts a command of the shell in the background, which goes on until the returned file is removed.
    async fn background(&self, names: &[&str]) -> Vec<PathBuf> {
        let files: Vec<PathBuf> = names.iter().map(|name| self.runner.home.path().join(name)).collect();
        let line = |file: &PathBuf| {
            std::fs::write(file, "").unwrap();
            format!("@bgsh while [ -e {} ]; do sleep 0.05; done", file.display())
        };
        let lines: Vec<String> = files.iter().map(line).collect();
        self.say(&lines.join("\n")).await;
        self.until(false, names.len() as u64).await;
        files
    }

    /// Waits until the model was told of so many tasks that are over, and has no more to say.
    async fn settled(&self, times: usize, left: u64) {
        let told = || self.api.asked().iter().filter(|text| text.contains("task-notification")).count();
        assert!(wait_for(|| !self.tells_the_model || told() >= times).await, "{:?}", self.api.asked());
        self.until(false, left).await;
    }
}

/// One turn; then idle for the whole window, reaped, and taken up again with its context.
pub(crate) async fn a_turn_an_idle_reap_and_a_resumption(kind: &Kind) {
    let Some(real) = Real::start(kind).await else { return };
    real.begin(1, None).await;
    let state = real.turn("@say the word is heron").await;
    let conversation = state["engine_session_id"].as_str().unwrap().to_owned();
    let pid = i32::try_from(state["pid"].as_i64().unwrap()).unwrap();
    real.runner.clock.advance(QUIET - 1);
    assert_eq!(real.end_if_idle().await, "active");
    real.runner.clock.advance(1);
    let (status, answer) = real.runner.end_if_idle(ID).await;
    assert_eq!((status, answer["outcome"].as_str()), (200, Some("stopped")), "{answer}");
    let command = answer["resume"]["command"].as_array().unwrap();
    assert_eq!(command.last().unwrap().as_str(), Some(conversation.as_str()), "{answer}");
    assert!(!is_alive(pid));
    real.begin(2, Some(&conversation)).await;
    real.say_as(2, "@recall").await;
    real.asked("@recall").await;
    let again = real.until(false, 0).await;
    assert_eq!(again["engine_session_id"], conversation.as_str());
    assert!(real.api.said().iter().any(|text| text == "recalled: the word is heron"), "{:?}", real.api.said());
    real.force(2).await;
    real.runner.stop().await;
}

/// Background work keeps it from being reaped; two overlap, and the clock starts when the second one ends.
pub(crate) async fn background_work_keeps_it(kind: &Kind) {
    let Some(real) = Real::start(kind).await else { return };
    real.begin(1, None).await;
    let files = real.background(&["a", "b"]).await;
    real.runner.clock.advance(QUIET + HOUR);
    assert_eq!(real.end_if_idle().await, "background_tasks");
    std::fs::remove_file(&files[0]).unwrap();
    real.settled(1, 1).await;
    real.runner.clock.advance(QUIET + HOUR);
    assert_eq!(real.end_if_idle().await, "background_tasks");
    std::fs::remove_file(&files[1]).unwrap();
    real.settled(2, 0).await;
    assert_eq!(real.end_if_idle().await, "active");
    real.runner.clock.advance(QUIET);
    assert_eq!(real.end_if_idle().await, "stopped");
    real.runner.stop().await;
}

/// A stalled turn is interrupted; the conversation goes on.
pub(crate) async fn an_interrupted_turn_ends_and_the_next_one_works(kind: &Kind) {
    let Some(real) = Real::start(kind).await else { return };
    real.begin(1, None).await;
    real.say("@stall").await;
    real.asked("@stall").await;
    real.until(true, 0).await;
    let (status, answer) = real.runner.post("interrupt", json!({"session_id": ID, "generation": 1})).await;
    assert_eq!(status, 200, "{answer}");
    real.until(false, 0).await;
    real.turn("@say on we go").await;
    assert!(real.api.said().iter().any(|text| text == "on we go"));
    real.force(1).await;
    real.runner.stop().await;
}

/// A fresh conversation in the same process knows nothing of the one before.
pub(crate) async fn a_cleared_conversation_is_forgotten(kind: &Kind) {
    let Some(real) = Real::start(kind).await else { return };
    real.begin(1, None).await;
    let before = real.turn("@say the word is heron").await;
    let (status, answer) = real.runner.post("clear", json!({"session_id": ID, "generation": 1})).await;
    assert_eq!(status, 200, "{answer}");
    let changed = |one: &Value| one["engine_session_id"] != before["engine_session_id"] && one["generating"] == false;
    real.runner.until_tracked(ID, "cleared", changed).await;
    real.turn("@recall").await;
    assert!(real.api.said().iter().any(|text| text == "recalled: "), "{:?}", real.api.said());
    real.force(1).await;
    real.runner.stop().await;
}

/// Nothing that it started outlives it: in the background, in the foreground of a stalled turn, nor detached.
pub(crate) async fn nothing_outlives_it(kind: &Kind) {
    let Some(real) = Real::start(kind).await else { return };
    real.begin(1, None).await;
    let (background, detached, running) = (unique(), unique(), unique());
    // The shell stays until the other has left its session: an engine may hang up on what is left in it.
    let left = real.runner.home.path().join("left");
    let detach = format!(
        "nohup setsid sh -c 'echo >{left}; exec sleep {detached}' >/dev/null 2>&1 & while [ ! -e {left} ]; do sleep 0.05; done",
        left = left.display()
    );
    real.say(&format!("@bgsh sleep {background}\n@sh {detach}")).await;
    real.until(false, 1).await;
    real.say(&format!("@sh sleep {running}")).await;
    let words = [&background, &detached, &running];
    assert!(wait_for(|| words.iter().all(|word| !sleeping(word).is_empty())).await, "{:?}", real.api.asked());
    real.force(1).await;
    for word in words {
        assert_eq!(sleeping(word), Vec::<i32>::new());
    }
    let asked = real.api.asked();
    assert!(!asked.iter().any(|text| text.contains("task-notification")), "the stop began a turn: {asked:?}");
    real.runner.stop().await;
}
