//! Recorded conversations with real engines, played to an adapter: what it makes of each line, in words.
//!
//! A line of a recording says when (`at`, in milliseconds), and either what the engine said (`said`) or what was done to
//! it (`do`); what the adapter wrote for that is left out, since it is what is tested.

use std::path::Path;

use serde_json::Value;

use crate::protocol::EngineState;
use crate::runner::doings::Doings;
use crate::runner::engines::{Adapter, AdapterKind, Event, Exchange, Interrupt, Opening, adapter};
use crate::time::{MINUTE, Ms};

/// A conversation that is being played.
pub(super) struct Play {
    kind: AdapterKind,
    adapter: Box<dyn Adapter>,
    /// Replace the adapter by one that took up its memory before each line.
    forgetful: bool,
    doings: Doings,
    now: Ms,
    /// What came of each line, in words.
    pub(super) told: Vec<String>,
    /// The state after each line.
    pub(super) states: Vec<EngineState>,
}

/// Plays a recording.
pub(super) fn play(kind: AdapterKind, name: &str) -> Play {
    play_as(kind, name, false)
}

/// Plays a recording to an adapter that is saved and restored before each line.
pub(super) fn play_with_restarts(kind: AdapterKind, name: &str) -> Play {
    play_as(kind, name, true)
}

/// Returns the names of all recordings of an engine.
pub(super) fn names(kind: AdapterKind) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/engines").join(kind.as_str());
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut names: Vec<String> = files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn play_as(kind: AdapterKind, name: &str, forgetful: bool) -> Play {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/engines").join(kind.as_str());
    let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
    let (adapter, doings) = (adapter(kind), Doings::started(0));
    let mut play = Play { kind, adapter, forgetful, doings, now: 0, told: Vec::new(), states: Vec::new() };
    let resumed = name == "resumed" || name == "unknown-conversation";
    text.lines().for_each(|line| play.step(&serde_json::from_str(line).unwrap(), resumed));
    play
}

impl Play {
    fn step(&mut self, line: &Value, resumed: bool) {
        if self.forgetful {
            let saved = self.adapter.save().to_string();
            self.adapter = adapter(self.kind);
            self.adapter.restore(&serde_json::from_str(&saved).unwrap());
        }
        self.now = line["at"].as_i64().unwrap();
        let (what, exchange) = match line.get("said") {
            Some(said) => (label(said), self.adapter.read(said.to_string().as_bytes())),
            None => (format!("> {}", line["do"].as_str().unwrap()), self.done(line, resumed)),
        };
        self.take(&what, &exchange);
    }

    fn done(&mut self, line: &Value, resumed: bool) -> Exchange {
        let write = |write| Exchange { events: Vec::new(), write };
        match line["do"].as_str().unwrap() {
            "greet" => {
                let engine_session_id = resumed.then(|| "the-id".to_owned());
                self.adapter.greet(&Opening { cwd: "/work".to_owned(), engine_session_id })
            }
            "message" => {
                self.doings.message(self.now);
                self.adapter.message(line["text"].as_str().unwrap())
            }
            "interrupt" => match self.adapter.interrupt() {
                Interrupt::Write(text) => write(text),
                Interrupt::Signal => Exchange::default(),
            },
            "stop_tasks" => write(self.adapter.stop_tasks()),
            "clear" => self.adapter.clear().unwrap(),
            "ask" => write(self.adapter.ask()),
            _ => Exchange::default(),
        }
    }

    fn take(&mut self, what: &str, exchange: &Exchange) {
        exchange.events.iter().for_each(|event| self.doings.heard(event, self.now));
        let state = self.doings.state(self.now, 30 * MINUTE);
        let events: Vec<String> = exchange.events.iter().map(word).collect();
        let wrote: String = exchange.write.iter().map(|line| format!("\n        {}", line.trim_end())).collect();
        let ready = if self.adapter.is_ready() { "" } else { " not ready" };
        self.told.push(format!("{what}: {}{}{ready}{wrote}", events.join(", "), in_words(&state)));
        self.states.push(state);
    }

    /// What came of it, and the state in the end.
    pub(super) fn text(&self) -> String {
        let idle = self.states.last().and_then(|state| state.idle_ms.value()).unwrap();
        format!("{}\nidle for {idle} ms", self.told.join("\n"))
    }
}

fn in_words(state: &EngineState) -> String {
    let turn = if state.generating.value() == Some(true) { " turn" } else { "" };
    let asks = if state.awaiting_input.value() == Some(true) { " asks" } else { "" };
    let tasks = state.background_tasks.value().filter(|tasks| *tasks > 0);
    let tasks = tasks.map_or_else(String::new, |tasks| format!(" tasks={tasks}"));
    let wakes = if state.next_wake_in_ms.is_some() { " wakes" } else { "" };
    format!(" [{}]", format!("{turn}{asks}{tasks}{wakes}").trim())
}

fn word(event: &Event) -> String {
    if let Event::Output { task } = event {
        return task.as_ref().map_or_else(|| "output".to_owned(), |task| format!("output of {task}"));
    }
    format!("{event:?}").replace('"', "")
}

fn label(said: &Value) -> String {
    let text = |name: &str| said[name].as_str();
    let inner = said["request"]["subtype"].as_str().or(said["patch"]["status"].as_str()).or(text("state"));
    let item = said["params"]["item"]["type"].as_str();
    let named = text("method").or(text("type")).unwrap_or("an answer").to_owned();
    [text("subtype"), text("status"), inner, item]
        .into_iter()
        .flatten()
        .fold(named, |all, part| format!("{all} {part}"))
}
