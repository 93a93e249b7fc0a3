//! Claude Code with stream-json on both sides; `docs/engines.md` says what its lines are taken for.
//!
//! A turn lasts from the message until it says that it is idle: a result alone ends no turn where it tells its states,
//! since a message that waits makes it go on at once. It begins turns by itself as well, when a task has settled or a
//! schedule fires. A question stays open until it is withdrawn or a person writes: then it is refused, never granted.

mod line;
mod prose;
mod schedule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::protocol::ResumeCommand;
use crate::runner::engines::claude::line::Said;
use crate::runner::engines::claude::schedule::Schedule;
use crate::runner::engines::{Adapter, Event, Exchange, Interrupt, Opening, Written, configured_resume};
use crate::runner::settings::EngineSpec;

/// How many tasks and open questions are remembered, to be stopped and refused; more than these are only told.
const MOST: usize = 256;

/// What the model is told of a question that a person answered with a message.
const REFUSAL: &str = "Not allowed. The user wrote a message instead, which follows.";

/// A Claude Code that speaks stream-json.
#[derive(Debug, Default)]
pub(crate) struct Claude {
    memory: Memory,
}

/// What it remembers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Memory {
    /// How many requests were made of it.
    requests: u64,
    /// It says when it runs and when it is idle.
    tells_states: bool,
    /// A turn runs.
    turn: bool,
    /// A person is asked.
    asked: bool,
    /// The open questions, with their kinds.
    questions: BTreeMap<String, String>,
    /// A message was written after it had said that it asks, and before it asked: what it asks then is refused.
    refuses: bool,
    /// The live tasks, with the calls that began them.
    tasks: BTreeMap<String, Option<String>>,
    /// What it has planned.
    schedule: Schedule,
}

impl Memory {
    fn request(&mut self, request: &Value) -> String {
        self.requests += 1;
        let id = format!("sexton-{}", self.requests);
        format!("{}\n", json!({"type": "control_request", "request_id": id, "request": request}))
    }

    fn output(&self, parent: Option<&str>) -> Event {
        let of = |call: &Option<String>| parent.is_some() && call.as_deref() == parent;
        let task = self.tasks.iter().find(|(_, call)| of(call)).map(|(task, _)| task.clone());
        Event::Output { task }
    }

    fn init(&mut self, id: Option<String>) -> Vec<Event> {
        let mut events: Vec<Event> = id.map(Event::Session).into_iter().collect();
        if !self.tells_states {
            self.turn = true;
            events.push(Event::TurnStarted);
        }
        events
    }

    /// It says so at the beginning of a turn and after a question: to begin one again does no harm, to miss one does.
    fn runs(&mut self) -> Vec<Event> {
        let mut events = self.answered();
        (self.turn, self.refuses) = (true, false);
        events.push(Event::TurnStarted);
        events
    }

    /// A question that is still open was not asked by the turn that is over.
    fn ends_turn(&mut self) -> Vec<Event> {
        let mut events = if self.questions.is_empty() { self.answered() } else { Vec::new() };
        let ran = std::mem::take(&mut self.turn);
        self.refuses = false;
        events.push(if ran { Event::TurnEnded } else { Event::Status });
        events
    }

    fn answered(&mut self) -> Vec<Event> {
        std::mem::replace(&mut self.asked, false).then_some(Event::InputReceived).into_iter().collect()
    }

    fn asks(&mut self) -> Vec<Event> {
        self.asked = true;
        vec![Event::AwaitingInput]
    }

    /// One that a message was already written for keeps that message waiting, so it is refused at once.
    fn question(&mut self, id: String, kind: String) -> Exchange {
        if self.refuses {
            return Exchange { events: vec![Event::Output { task: None }], write: vec![refusal((&id, &kind))] };
        }
        if self.questions.len() < MOST {
            self.questions.insert(id, kind);
        }
        Exchange { events: self.asks(), write: Vec::new() }
    }

    fn withdrawn(&mut self, id: &str) -> Vec<Event> {
        self.questions.remove(id);
        if !self.questions.is_empty() || !self.asked {
            return vec![Event::Status];
        }
        self.answered()
    }

    fn message(&mut self, model: bool, parent: Option<&str>, line: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        // The model itself speaks, so there is a turn, whatever was missed.
        if model && parent.is_none() && !std::mem::replace(&mut self.turn, true) {
            events.push(Event::TurnStarted);
        }
        events.push(self.output(parent));
        events.extend(self.schedule.read(model, line));
        events
    }
}

impl Adapter for Claude {
    fn command(&self, spec: &EngineSpec, opening: &Opening) -> Vec<String> {
        let resume = opening.engine_session_id.as_ref().map(|id| format!("--resume={id}"));
        spec.command.iter().cloned().chain(resume).collect()
    }

    fn passes_on(&self) -> &'static [&'static str] {
        &[
            "ANTHROPIC_*",
            "CLAUDE_*",
            "DISABLE_AUTOUPDATER",
            "DISABLE_TELEMETRY",
            "DISABLE_ERROR_REPORTING",
            "IS_SANDBOX",
        ]
    }

    fn env(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS".to_owned(), "1".to_owned())])
    }

    /// It says nothing before its first message, but keeps the id of the conversation that it takes up.
    fn greet(&mut self, opening: &Opening) -> Exchange {
        let events = opening.engine_session_id.clone().map(Event::Session).into_iter().collect();
        Exchange { events, write: Vec::new() }
    }

    fn read(&mut self, line: &[u8]) -> Exchange {
        let memory = &mut self.memory;
        let said = line::read(line);
        memory.tells_states |= matches!(said, Said::Running | Said::RequiresAction | Said::Idle);
        let events = match said {
            Said::Init(id) => memory.init(id),
            Said::Running => memory.runs(),
            Said::RequiresAction => memory.asks(),
            Said::Idle => memory.ends_turn(),
            Said::Result if !memory.tells_states => memory.ends_turn(),
            Said::TaskBegan(task, call) => {
                if memory.tasks.len() < MOST {
                    memory.tasks.insert(task.clone(), call);
                }
                vec![Event::BackgroundStarted(task)]
            }
            Said::TaskSettled(task) => {
                memory.tasks.remove(&task);
                vec![Event::BackgroundEnded(task)]
            }
            Said::OfTask(task) => vec![Event::Output { task: Some(task) }],
            Said::Question(id, kind) => return memory.question(id, kind),
            Said::Withdrawn(id) => memory.withdrawn(&id),
            Said::Message { model, parent } => memory.message(model, parent.as_deref(), line),
            Said::Status => vec![Event::Status],
            Said::Notice if !memory.turn => vec![Event::Status],
            Said::Result | Said::Notice | Said::Other => vec![Event::Output { task: None }],
        };
        Exchange { events, write: Vec::new() }
    }

    fn written(&self, line: &[u8]) -> Option<Written> {
        prose::read(line)
    }

    /// A message does not reach it while it asks something, so the open questions are refused first; so is one that it
    /// has announced, as soon as it comes.
    fn message(&mut self, text: &str) -> Exchange {
        let memory = &mut self.memory;
        memory.refuses |= memory.asked && memory.questions.is_empty();
        let mut write: Vec<String> = std::mem::take(&mut memory.questions).iter().map(refusal).collect();
        (memory.turn, memory.asked) = (true, false);
        write.push(user(text));
        Exchange { events: vec![Event::TurnStarted], write }
    }

    fn interrupt(&mut self) -> Interrupt {
        let works = self.memory.turn || self.memory.asked;
        Interrupt::Write(works.then(|| self.memory.request(&json!({"subtype": "interrupt"}))).into_iter().collect())
    }

    fn stop_tasks(&mut self) -> Vec<String> {
        let tasks: Vec<String> = self.memory.tasks.keys().cloned().collect();
        let stop = |task| self.memory.request(&json!({"subtype": "stop_task", "task_id": task}));
        tasks.into_iter().map(stop).collect()
    }

    /// Its own command for that; the conversation gets a new id. Tasks and schedules live on.
    fn clear(&mut self) -> Option<Exchange> {
        if self.memory.turn || self.memory.asked {
            return None;
        }
        Some(self.message("/clear"))
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
            Some(ResumeCommand { command: vec![program.clone(), "--resume".into(), id.into()], cwd: cwd.to_owned() })
        })
    }
}

fn user(text: &str) -> String {
    format!("{}\n", json!({"type": "user", "message": {"role": "user", "content": text}}))
}

fn refusal((id, kind): (&String, &String)) -> String {
    let refused = |response: Value| json!({"subtype": "success", "request_id": id, "response": response});
    let response = match kind.as_str() {
        "can_use_tool" => refused(json!({"behavior": "deny", "message": REFUSAL})),
        "elicitation" => refused(json!({"action": "decline"})),
        "request_user_dialog" => refused(json!({"behavior": "cancelled"})),
        _ => json!({"subtype": "error", "request_id": id, "error": REFUSAL}),
    };
    format!("{}\n", json!({"type": "control_response", "response": response}))
}
