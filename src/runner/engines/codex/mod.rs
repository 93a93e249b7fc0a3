//! The app server of Codex, with one conversation per process; `docs/engines.md` says what its lines are taken for.
//!
//! It is greeted with everything that opens the conversation, and is ready once it named the thread. A message begins a
//! turn, or joins the one that runs. A question stays open until it is settled or a person writes: then it is refused,
//! never granted.

mod memory;
mod terminals;
#[cfg(test)]
mod tests;
mod wire;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::protocol::ResumeCommand;
use crate::runner::engines::codex::memory::{Asked, Memory};
use crate::runner::engines::codex::wire::Line;
use crate::runner::engines::{Adapter, Event, Exchange, Interrupt, Opening, Written, configured_resume};
use crate::runner::settings::EngineSpec;

/// A Codex whose app server speaks on its standard input and output.
#[derive(Debug, Default)]
pub(crate) struct Codex {
    memory: Memory,
}

impl Adapter for Codex {
    fn command(&self, spec: &EngineSpec, _opening: &Opening) -> Vec<String> {
        spec.command.clone()
    }

    fn passes_on(&self) -> &'static [&'static str] {
        &["OPENAI_*", "CODEX_*"]
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

    fn trouble(&self) -> Option<String> {
        self.memory.trouble.clone()
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

    fn written(&self, line: &[u8]) -> Option<Written> {
        let line: Line = serde_json::from_slice(line).ok()?;
        let said = |value: &Value| value.as_str().map(str::to_owned);
        let (params, item) = (&line.params, &line.params["item"]);
        if said(&params["threadId"]) != self.memory.thread {
            return None;
        }
        match line.method.as_str()? {
            "item/started" if item["type"] == "agentMessage" => Some(Written::Begins(said(&item["id"])?)),
            "item/agentMessage/delta" => {
                Some(Written::More { part: said(&params["itemId"])?, text: said(&params["delta"])? })
            }
            "item/completed" if item["type"] == "agentMessage" => {
                Some(Written::Whole { part: said(&item["id"])?, text: said(&item["text"])? })
            }
            _ => None,
        }
    }

    /// A message does not reach it while it asks something, so the open questions are refused first; so is one that it
    /// has announced, as soon as it comes.
    fn message(&mut self, text: &str) -> Exchange {
        let memory = &mut self.memory;
        memory.refuses |= memory.asked && memory.questions.is_empty();
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
