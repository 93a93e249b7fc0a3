//! What is remembered of a conversation with Codex, and what each of its lines does to that.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::runner::engines::codex::terminals::Terminals;
use crate::runner::engines::codex::wire::{self, Line};
use crate::runner::engines::{Event, Exchange, unready};

/// How many questions, threads and requests without an answer are remembered.
const MOST: usize = 256;

/// What it remembers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    /// How many requests were made of it.
    pub(super) requests: u64,
    /// The folder of the conversation.
    pub(super) cwd: String,
    /// The conversation.
    pub(super) thread: Option<String>,
    /// The running turn; empty while its id is not known.
    pub(super) turn: Option<String>,
    /// A person is asked.
    pub(super) asked: bool,
    /// The open questions, by their ids as JSON, with their methods.
    pub(super) questions: BTreeMap<String, String>,
    /// A message was written after it had said that it asks, and before it asked: what it asks then is refused.
    pub(super) refuses: bool,
    /// Why there is no conversation and will be none.
    pub(super) trouble: Option<String>,
    /// The requests that an answer matters to.
    pub(super) waiting: BTreeMap<u64, Asked>,
    /// Threads besides the conversation's that work, as those of agents below it.
    pub(super) others: BTreeSet<String>,
    /// The commands that are not over.
    pub(super) terminals: Terminals,
}

/// What a request was for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Asked {
    /// To open a conversation.
    Open,
    /// To begin a turn.
    Turn,
    /// For the background terminals of a thread.
    Terminals(String),
}

impl Memory {
    /// Writes a request; `asked` says what its answer will be taken for.
    pub(super) fn request(&mut self, method: &str, params: &Value, asked: Option<Asked>) -> String {
        self.requests += 1;
        if let Some(asked) = asked {
            self.waiting.insert(self.requests, asked);
            if self.waiting.len() > MOST {
                self.waiting.pop_first();
            }
        }
        wire::request(self.requests, method, params)
    }

    /// Writes the request that opens a conversation, or takes one up again.
    pub(super) fn open(&mut self, resume: Option<&str>) -> String {
        let cwd = self.cwd.clone();
        match resume {
            Some(id) => {
                let params = json!({"threadId": id, "cwd": cwd, "excludeTurns": true});
                self.request("thread/resume", &params, Some(Asked::Open))
            }
            None => self.request("thread/start", &json!({"cwd": cwd}), Some(Asked::Open)),
        }
    }

    /// Returns whether a conversation is being opened.
    pub(super) fn is_opening(&self) -> bool {
        self.waiting.values().any(|asked| *asked == Asked::Open)
    }

    /// Reads the answer to a request.
    pub(super) fn answer(&mut self, line: &Line) -> Vec<Event> {
        let number = line.id.as_u64().unwrap_or_default();
        let result = line.error.is_null().then_some(&line.result);
        match self.waiting.remove(&number) {
            Some(Asked::Open) => self.opened(result, &line.error),
            Some(Asked::Turn) => self.turn_answered(result),
            Some(Asked::Terminals(thread)) => {
                let mut events = self.terminals.listed(&thread, number, result);
                events.push(Event::Status);
                events
            }
            None => vec![Event::Status],
        }
    }

    /// A refusal leaves it with the conversation that it has, if any.
    fn opened(&mut self, result: Option<&Value>, error: &Value) -> Vec<Event> {
        let Some(id) = result.and_then(|result| result["thread"]["id"].as_str()) else {
            if self.thread.is_none() {
                self.trouble = Some(unready("it cannot open the conversation", error));
            }
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
                (self.turn, self.refuses) = (None, false);
                vec![Event::TurnEnded]
            }
            None => vec![Event::Output { task: None }],
        }
    }

    /// Reads a request that it makes.
    pub(super) fn question(&mut self, id: &Value, method: &str) -> Exchange {
        if wire::is_for_programs(method) {
            return Exchange { events: vec![Event::Output { task: None }], write: vec![wire::unsupported(id)] };
        }
        // The message that was already written waits for it.
        if self.refuses {
            return Exchange { events: vec![Event::Output { task: None }], write: vec![wire::refusal(id, method)] };
        }
        if self.questions.len() < MOST {
            self.questions.insert(id.to_string(), method.to_owned());
        }
        self.asked = true;
        Exchange { events: vec![Event::AwaitingInput], write: Vec::new() }
    }

    /// Reads a notice.
    pub(super) fn notice(&mut self, method: &str, params: &Value) -> Vec<Event> {
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
        (self.turn, self.refuses) = (None, false);
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
        self.refuses = false;
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
