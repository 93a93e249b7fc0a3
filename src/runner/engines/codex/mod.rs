//! The app server of Codex, with one conversation per process; `docs/engines.md` says what its lines are taken for.
//!
//! It is greeted with everything that opens the conversation, and is ready once it named the thread. A message begins a
//! turn, or joins the one that runs. A question stays open until it is settled or a person writes: then it is refused,
//! never granted.

mod terminals;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::protocol::ResumeCommand;
use crate::runner::engines::codex::terminals::Terminals;
use crate::runner::engines::codex::wire::Line;
use crate::runner::engines::{Adapter, Event, Exchange, Interrupt, Opening, configured_resume};
use crate::runner::settings::EngineSpec;

/// How many questions, threads and requests without an answer are remembered.
const MOST: usize = 256;

/// A Codex whose app server speaks on its standard input and output.
#[derive(Debug, Default)]
pub(crate) struct Codex {
    memory: Memory,
}

/// What it remembers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Memory {
    /// How many requests were made of it.
    requests: u64,
    /// The folder of the conversation.
    cwd: String,
    /// The conversation.
    thread: Option<String>,
    /// The running turn; empty while its id is not known.
    turn: Option<String>,
    /// A person is asked.
    asked: bool,
    /// The open questions, by their ids as JSON, with their methods.
    questions: BTreeMap<String, String>,
    /// The requests that an answer matters to.
    waiting: BTreeMap<u64, Asked>,
    /// Threads besides the conversation's that work, as those of agents below it.
    others: BTreeSet<String>,
    /// The commands that are not over.
    terminals: Terminals,
}

/// What a request was for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Asked {
    /// To open a conversation.
    Open,
    /// To begin a turn.
    Turn,
    /// For the background terminals of a thread.
    Terminals(String),
}

impl Memory {
    fn request(&mut self, method: &str, params: &Value, asked: Option<Asked>) -> String {
        self.requests += 1;
        if let Some(asked) = asked {
            self.waiting.insert(self.requests, asked);
            if self.waiting.len() > MOST {
                self.waiting.pop_first();
            }
        }
        wire::request(self.requests, method, params)
    }

    fn open(&mut self, resume: Option<&str>) -> String {
        let cwd = self.cwd.clone();
        match resume {
            Some(id) => {
                let params = json!({"threadId": id, "cwd": cwd, "excludeTurns": true});
                self.request("thread/resume", &params, Some(Asked::Open))
            }
            None => self.request("thread/start", &json!({"cwd": cwd}), Some(Asked::Open)),
        }
    }

    fn is_opening(&self) -> bool {
        self.waiting.values().any(|asked| *asked == Asked::Open)
    }

    /// Reads the answer to a request.
    fn answer(&mut self, line: &Line) -> Vec<Event> {
        let number = line.id.as_u64().unwrap_or_default();
        let result = line.error.is_null().then_some(&line.result);
        match self.waiting.remove(&number) {
            Some(Asked::Open) => self.opened(result),
            Some(Asked::Turn) => self.turn_answered(result),
            Some(Asked::Terminals(thread)) => {
                let mut events = self.terminals.listed(&thread, number, result);
                events.push(Event::Status);
                events
            }
            None => vec![Event::Status],
        }
    }

    fn opened(&mut self, result: Option<&Value>) -> Vec<Event> {
        let Some(id) = result.and_then(|result| result["thread"]["id"].as_str()) else {
            return vec![Event::Output { task: None }];
        };
        self.thread = Some(id.to_owned());
        vec![Event::Session(id.to_owned())]
    }

    fn turn_answered(&mut self, result: Option<&Value>) -> Vec<Event> {
        let unnamed = self.turn.as_deref() == Some("");
        match result {
            Some(result) => {
                if let Some(id) = result["turn"]["id"].as_str().filter(|_| unnamed) {
                    self.turn = Some(id.to_owned());
                }
                vec![Event::Output { task: None }]
            }
            // No turn came of the message.
            None if unnamed => {
                self.turn = None;
                vec![Event::TurnEnded]
            }
            None => vec![Event::Output { task: None }],
        }
    }

    /// Reads a request that it makes.
    fn question(&mut self, id: &Value, method: &str) -> Exchange {
        if wire::is_for_programs(method) {
            return Exchange { events: vec![Event::Output { task: None }], write: vec![wire::unsupported(id)] };
        }
        if self.questions.len() < MOST {
            self.questions.insert(id.to_string(), method.to_owned());
        }
        self.asked = true;
        Exchange { events: vec![Event::AwaitingInput], write: Vec::new() }
    }

    /// Reads a notice.
    fn notice(&mut self, method: &str, params: &Value) -> Vec<Event> {
        let thread = params["threadId"].as_str();
        let own = thread.is_none() || thread == self.thread.as_deref();
        match method {
            "turn/started" if own => self.turn_began(params),
            "turn/completed" if own => self.turn_ended(params),
            "turn/started" => self.other_began(thread.unwrap_or_default()),
            "turn/completed" | "thread/closed" if !own => self.other_ended(thread.unwrap_or_default()),
            "thread/status/changed" => self.status(own, &params["status"]),
            "item/started" if is_command(params) => vec![self.command_began(params)],
            "item/completed" if is_command(params) => vec![self.terminals.ended(id(&params["item"]))],
            "serverRequest/resolved" => self.resolved(&params["requestId"]),
            _ if wire::is_work(method) => vec![self.output(own, params)],
            _ => vec![Event::Status],
        }
    }

    fn turn_began(&mut self, params: &Value) -> Vec<Event> {
        self.turn = Some(id(&params["turn"]).to_owned());
        vec![Event::TurnStarted]
    }

    /// The end of another turn than the one that runs ends nothing.
    fn turn_ended(&mut self, params: &Value) -> Vec<Event> {
        let ended = id(&params["turn"]);
        if self.turn.as_deref().is_some_and(|turn| !turn.is_empty() && turn != ended) {
            return vec![Event::Output { task: None }];
        }
        self.turn = None;
        let mut events = self.terminals.turn_ended(self.thread.as_deref().unwrap_or_default(), self.requests);
        events.push(Event::TurnEnded);
        events
    }

    fn other_began(&mut self, thread: &str) -> Vec<Event> {
        if self.others.len() < MOST {
            self.others.insert(thread.to_owned());
        }
        vec![Event::BackgroundStarted(agent(thread))]
    }

    fn other_ended(&mut self, thread: &str) -> Vec<Event> {
        self.others.remove(thread);
        let mut events = self.terminals.turn_ended(thread, self.requests);
        events.push(Event::BackgroundEnded(agent(thread)));
        events
    }

    /// An idle thread says nothing: the end of its turn follows.
    fn status(&mut self, own: bool, status: &Value) -> Vec<Event> {
        if status["type"] != "active" {
            return vec![Event::Status];
        }
        if status["activeFlags"].as_array().is_some_and(|flags| !flags.is_empty()) {
            self.asked = true;
            return vec![Event::AwaitingInput];
        }
        let mut events = self.answered();
        if own && self.turn.is_none() {
            self.turn = Some(String::new());
            events.push(Event::TurnStarted);
        }
        if events.is_empty() { vec![Event::Status] } else { events }
    }

    fn answered(&mut self) -> Vec<Event> {
        std::mem::replace(&mut self.asked, false).then_some(Event::InputReceived).into_iter().collect()
    }

    fn resolved(&mut self, id: &Value) -> Vec<Event> {
        self.questions.remove(&id.to_string());
        let events = if self.questions.is_empty() { self.answered() } else { Vec::new() };
        if events.is_empty() { vec![Event::Status] } else { events }
    }

    fn command_began(&mut self, params: &Value) -> Event {
        let thread = params["threadId"].as_str().or(self.thread.as_deref()).unwrap_or_default().to_owned();
        let turn =
            if self.thread.as_deref() == Some(&thread) { self.turn.is_some() } else { self.others.contains(&thread) };
        self.terminals.began(id(&params["item"]), &thread, turn, self.requests)
    }

    fn output(&self, own: bool, params: &Value) -> Event {
        let item = params["itemId"].as_str().filter(|item| self.terminals.is_task(item)).map(str::to_owned);
        let other = params["threadId"].as_str().filter(|_| !own).map(agent);
        Event::Output { task: item.or(other) }
    }
}

impl Adapter for Codex {
    fn command(&self, spec: &EngineSpec, _opening: &Opening) -> Vec<String> {
        spec.command.clone()
    }

    fn passes_on(&self) -> &'static [&'static str] {
        &[
            "OPENAI_*",
            "CODEX_*",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "NO_PROXY",
            "http_proxy",
            "https_proxy",
            "no_proxy",
            "NODE_EXTRA_CA_CERTS",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
        ]
    }

    fn greet(&mut self, opening: &Opening) -> Exchange {
        let memory = &mut self.memory;
        memory.cwd.clone_from(&opening.cwd);
        let client = json!({"name": "sexton", "title": "Sexton", "version": env!("CARGO_PKG_VERSION")});
        // The background terminals are told only to those who say this.
        let params = json!({"clientInfo": client, "capabilities": {"experimentalApi": true}});
        let initialize = memory.request("initialize", &params, None);
        let open = memory.open(opening.engine_session_id.as_deref());
        Exchange { events: Vec::new(), write: vec![initialize, wire::notice("initialized"), open] }
    }

    fn is_ready(&self) -> bool {
        self.memory.thread.is_some() && !self.memory.is_opening()
    }

    fn read(&mut self, line: &[u8]) -> Exchange {
        let memory = &mut self.memory;
        let Ok(line) = serde_json::from_slice::<Line>(line) else {
            return Exchange { events: vec![Event::Output { task: None }], write: Vec::new() };
        };
        let events = match (line.method.as_str(), line.id.is_null()) {
            (Some(method), false) => return memory.question(&line.id, method),
            (Some(method), true) => memory.notice(method, &line.params),
            (None, false) => memory.answer(&line),
            (None, true) => vec![Event::Output { task: None }],
        };
        Exchange { events, write: Vec::new() }
    }

    /// A message does not reach it while it asks something, so the open questions are refused first.
    fn message(&mut self, text: &str) -> Exchange {
        let memory = &mut self.memory;
        let questions = std::mem::take(&mut memory.questions);
        let refusal =
            |(id, method): (&String, &String)| wire::refusal(&serde_json::from_str(id).unwrap_or(Value::Null), method);
        let mut write: Vec<String> = questions.iter().map(refusal).collect();
        memory.asked = false;
        memory.turn.get_or_insert_default();
        let params = json!({"threadId": memory.thread, "input": [{"type": "text", "text": text}]});
        write.push(memory.request("turn/start", &params, Some(Asked::Turn)));
        Exchange { events: vec![Event::TurnStarted], write }
    }

    /// An empty id stands for whichever turn runs.
    fn interrupt(&mut self) -> Interrupt {
        let memory = &mut self.memory;
        let turn = memory.turn.clone().or_else(|| memory.asked.then(String::new));
        let Some(turn) = turn else { return Interrupt::Write(Vec::new()) };
        let params = json!({"threadId": memory.thread, "turnId": turn});
        Interrupt::Write(vec![memory.request("turn/interrupt", &params, None)])
    }

    fn stop_tasks(&mut self) -> Vec<String> {
        let memory = &mut self.memory;
        let mut write = Vec::new();
        for thread in memory.others.clone() {
            write.push(memory.request("turn/interrupt", &json!({"threadId": thread, "turnId": ""}), None));
        }
        for thread in memory.terminals.threads() {
            write.push(memory.request("thread/backgroundTerminals/clean", &json!({"threadId": thread}), None));
        }
        write
    }

    /// A new thread in the same process. What runs in the background of the old one is still told.
    fn clear(&mut self) -> Option<Exchange> {
        if !self.is_ready() || self.memory.turn.is_some() || self.memory.asked {
            return None;
        }
        Some(Exchange { events: Vec::new(), write: vec![self.memory.open(None)] })
    }

    fn ask(&mut self) -> Vec<String> {
        let memory = &mut self.memory;
        let Some(current) = memory.thread.clone().filter(|_| memory.turn.is_none()) else { return Vec::new() };
        let threads = memory.terminals.occasion(&current);
        let ask = |thread: String| {
            let params = json!({"threadId": thread});
            memory.request("thread/backgroundTerminals/list", &params, Some(Asked::Terminals(thread)))
        };
        threads.into_iter().map(ask).collect()
    }

    fn save(&self) -> Value {
        serde_json::to_value(&self.memory).unwrap_or(Value::Null)
    }

    fn restore(&mut self, saved: &Value) {
        if let Some(memory) = saved.as_object().and_then(|_| Memory::deserialize(saved).ok()) {
            self.memory = memory;
        }
    }

    fn resume(&self, spec: &EngineSpec, engine_session_id: Option<&str>, cwd: &str) -> Option<ResumeCommand> {
        configured_resume(spec, engine_session_id, cwd).or_else(|| {
            let (program, id) = (spec.command.first()?, engine_session_id?);
            Some(ResumeCommand { command: vec![program.clone(), "resume".into(), id.into()], cwd: cwd.to_owned() })
        })
    }
}

fn is_command(params: &Value) -> bool {
    params["item"]["type"] == "commandExecution"
}

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap_or_default()
}

/// The task that stands for another thread's turn.
fn agent(thread: &str) -> String {
    format!("thread-{thread}")
}
