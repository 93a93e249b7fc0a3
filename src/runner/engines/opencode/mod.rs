//! OpenCode: a server for one session, behind the bridge that gives it lines ([`crate::runner::bridge`]).
//!
//! The conversation's own session tells the turns. Any other session of the same server that is at work, be it a
//! subagent or one that an attached person opened, is a background task: the server would take it along. A command
//! that a tool left running is not told by OpenCode at all.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::ResumeCommand;
use crate::runner::bridge::wire::{Command, Line};
use crate::runner::engines::{Adapter, Event, Exchange, Interrupt, Opening, Written, configured_resume};
use crate::runner::settings::EngineSpec;

#[cfg(test)]
mod tests;

/// How many other sessions and how many questions are told apart.
const KEPT_MOST: usize = 100;
/// How many bytes an id may have that is kept.
const ID_MOST: usize = 256;
/// A message that is under way is given up for its turn after so many answers that nothing is at work.
const DOUBTS_MOST: u8 = 3;

/// An engine that is a server of OpenCode behind its bridge.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Opencode {
    ready: bool,
    /// The conversation's session.
    session: Option<String>,
    /// A turn was told to have begun, and not yet to have ended.
    told: bool,
    /// The session is at work, as far as the server said.
    working: bool,
    /// A message was written for which it has not yet gone to work; so many answers spoke against that.
    sent: Option<u8>,
    /// The other sessions that are at work.
    others: BTreeSet<String>,
    /// The questions that wait for an answer, with the session that asks.
    asking: BTreeMap<String, String>,
}

/// A line that passes an event on.
#[derive(Deserialize)]
struct PassedOn {
    event: Told,
}

#[derive(Deserialize)]
struct Told {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    properties: Properties,
}

#[derive(Default, Deserialize)]
struct Properties {
    #[serde(default, rename = "sessionID")]
    session_id: String,
    #[serde(default)]
    id: String,
    #[serde(default, rename = "requestID")]
    request_id: String,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(rename = "type")]
    kind: String,
}

impl Opencode {
    fn line(&mut self, line: Line) -> Vec<Event> {
        match line {
            Line::Ready { session_id, .. } => self.opened(session_id),
            Line::Status { working, asking } => self.reconcile(&working, asking),
            Line::Lost { .. } => vec![Event::Status],
            Line::Refused { command, .. } if command == "message" => self.refused(),
            Line::Refused { .. } | Line::Dropped => vec![output(None)],
        }
    }

    fn opened(&mut self, session_id: String) -> Vec<Event> {
        let mut events = vec![Event::Session(session_id.clone())];
        if let Some(earlier) = self.session.replace(session_id) {
            events.extend(self.asks_no_more(&earlier));
        }
        (self.ready, self.working, self.sent) = (true, false, None);
        // It tells turns, and none runs.
        self.told = true;
        events.extend(self.end());
        events
    }

    /// Takes the server's word for what is at work. It is asked for it, so an answer is no sign of work by itself.
    fn reconcile(&mut self, working: &[String], asking: Option<BTreeMap<String, String>>) -> Vec<Event> {
        let own = self.session.clone().unwrap_or_default();
        let mut events = if working.contains(&own) {
            (self.working, self.sent) = (true, None);
            if self.told { Vec::new() } else { self.start() }
        } else {
            self.working = false;
            self.sent = self.sent.map(|doubts| doubts + 1).filter(|doubts| *doubts < DOUBTS_MOST);
            if self.told && self.sent.is_none() { self.end() } else { Vec::new() }
        };
        let gone: Vec<String> = self.others.iter().filter(|id| !working.contains(id)).cloned().collect();
        gone.iter().for_each(|id| events.extend(self.idle(id)));
        let fresh = working.iter().filter(|id| **id != own && !self.others.contains(*id)).cloned();
        fresh.collect::<Vec<_>>().iter().for_each(|id| events.extend(self.busy(id)));
        if let Some(asking) = asking {
            events.extend(self.only_asked(asking, working));
        }
        if events.is_empty() { vec![Event::Status] } else { events }
    }

    /// Takes over which questions wait. The server keeps those of an aborted turn for ever, so a session that is not at
    /// work asks nothing.
    fn only_asked(&mut self, asking: BTreeMap<String, String>, working: &[String]) -> Vec<Event> {
        let before = !self.asking.is_empty();
        self.asking = asking.into_iter().filter(|(_, id)| working.contains(id)).take(KEPT_MOST).collect();
        match (before, !self.asking.is_empty()) {
            (false, true) => vec![Event::AwaitingInput],
            (true, false) => vec![Event::InputReceived],
            (true, true) | (false, false) => Vec::new(),
        }
    }

    fn event(&mut self, event: Told) -> Vec<Event> {
        let Told { kind, properties } = event;
        let id = properties.session_id;
        match kind.as_str() {
            "session.status" => match properties.status.as_ref().map(|status| status.kind.as_str()) {
                Some("idle") => self.idle(&id),
                // At work, or waiting for its next attempt.
                Some(_) => self.busy(&id),
                None => vec![output(None)],
            },
            "session.idle" => self.idle(&id),
            "permission.asked" | "permission.v2.asked" | "question.asked" | "question.v2.asked" => {
                self.asked(properties.id, id)
            }
            "permission.replied"
            | "permission.v2.replied"
            | "question.replied"
            | "question.v2.replied"
            | "question.rejected"
            | "question.v2.rejected" => self.answered(&properties.request_id),
            // A turn that failed before it went to work.
            "session.error" if self.is_own(&id) && !self.working => self.refused(),
            _ => vec![output(Some(id).filter(|id| self.others.contains(id)))],
        }
    }

    fn is_own(&self, id: &str) -> bool {
        self.session.as_deref() == Some(id)
    }

    fn busy(&mut self, id: &str) -> Vec<Event> {
        if self.is_own(id) {
            (self.working, self.sent) = (true, None);
            return self.start();
        }
        let keeps = self.others.len() < KEPT_MOST && id.len() <= ID_MOST;
        if self.others.contains(id) || !keeps {
            return vec![output(Some(id.to_owned()))];
        }
        self.others.insert(id.to_owned());
        vec![Event::BackgroundStarted(id.to_owned())]
    }

    fn idle(&mut self, id: &str) -> Vec<Event> {
        if self.is_own(id) {
            self.working = false;
            // A message on its way may have crossed it; then the server goes to work, or says when it is asked.
            return if self.sent.is_none() { self.end() } else { vec![Event::Status] };
        }
        if !self.others.remove(id) {
            return vec![Event::Status];
        }
        let mut events = self.asks_no_more(id);
        events.push(Event::BackgroundEnded(id.to_owned()));
        events
    }

    fn start(&mut self) -> Vec<Event> {
        let first = !std::mem::replace(&mut self.told, true);
        vec![if first { Event::TurnStarted } else { output(None) }]
    }

    fn end(&mut self) -> Vec<Event> {
        if !std::mem::replace(&mut self.told, false) {
            return vec![Event::Status];
        }
        let own = self.session.clone().unwrap_or_default();
        let mut events = self.asks_no_more(&own);
        events.push(Event::TurnEnded);
        events
    }

    fn refused(&mut self) -> Vec<Event> {
        self.sent = None;
        if self.working { vec![output(None)] } else { self.end() }
    }

    fn asked(&mut self, question: String, session: String) -> Vec<Event> {
        if self.asking.len() < KEPT_MOST && question.len() <= ID_MOST && session.len() <= ID_MOST {
            self.asking.insert(question, session);
        }
        vec![Event::AwaitingInput]
    }

    fn answered(&mut self, question: &str) -> Vec<Event> {
        self.asking.remove(question);
        vec![if self.asking.is_empty() { Event::InputReceived } else { output(None) }]
    }

    /// A turn that is over waits for nobody; OpenCode says nothing about its open questions.
    fn asks_no_more(&mut self, session: &str) -> Vec<Event> {
        let before = self.asking.len();
        self.asking.retain(|_, asks| asks != session);
        let emptied = before > 0 && self.asking.is_empty();
        if emptied { vec![Event::InputReceived] } else { Vec::new() }
    }
}

impl Adapter for Opencode {
    /// The `sexton` program stands before the server's command as `{sexton}`. A port and an address that the command does
    /// not name are any free one, and this machine's own.
    fn command(&self, spec: &EngineSpec, _opening: &Opening) -> Vec<String> {
        let mut command: Vec<String> = ["{sexton}", "opencode-bridge", "--"].map(str::to_owned).to_vec();
        command.extend(spec.command.iter().cloned());
        for (name, value) in [("--port", "0"), ("--hostname", "127.0.0.1")] {
            let named = |part: &String| part == name || part.starts_with(&format!("{name}="));
            if !spec.command.iter().any(named) {
                command.extend([name.to_owned(), value.to_owned()]);
            }
        }
        command
    }

    fn passes_on(&self) -> &'static [&'static str] {
        PASSED_ON
    }

    fn greet(&mut self, opening: &Opening) -> Exchange {
        *self = Self::default();
        let open = Command::Open { session_id: opening.engine_session_id.clone() };
        Exchange { events: Vec::new(), write: vec![line(&open)] }
    }

    fn is_ready(&self) -> bool {
        self.ready
    }

    fn read(&mut self, line: &[u8]) -> Exchange {
        let events = if let Ok(PassedOn { event }) = serde_json::from_slice(line) {
            self.event(event)
        } else if let Ok(line) = serde_json::from_slice::<Line>(line) {
            self.line(line)
        } else {
            vec![output(None)]
        };
        Exchange { events, write: Vec::new() }
    }

    /// A text part of the model's begins empty; one of a person's message never does, and is so left out.
    fn written(&self, line: &[u8]) -> Option<Written> {
        let line: Value = serde_json::from_slice(line).ok()?;
        let properties = &line["event"]["properties"];
        if !self.is_own(properties["sessionID"].as_str()?) {
            return None;
        }
        let said = |value: &Value| value.as_str().map(str::to_owned);
        let part = &properties["part"];
        match line["event"]["type"].as_str()? {
            "message.part.delta" if properties["field"] == "text" => {
                Some(Written::More { part: said(&properties["partID"])?, text: said(&properties["delta"])? })
            }
            "message.part.updated" if part["type"] == "text" && part["text"] == "" => {
                Some(Written::Begins(said(&part["id"])?))
            }
            "message.part.updated" if part["type"] == "text" => {
                Some(Written::Whole { part: said(&part["id"])?, text: said(&part["text"])? })
            }
            _ => None,
        }
    }

    fn message(&mut self, text: &str) -> Exchange {
        self.sent = Some(0);
        let mut events = self.start();
        // A message is no answer to a question of OpenCode's.
        events.extend((!self.asking.is_empty()).then_some(Event::AwaitingInput));
        Exchange { events, write: vec![line(&Command::Message { text: text.to_owned() })] }
    }

    fn interrupt(&mut self) -> Interrupt {
        self.sent = None;
        let abort = self.told.then(|| line(&Command::Abort { session_id: None }));
        Interrupt::Write(abort.into_iter().collect())
    }

    fn stop_tasks(&mut self) -> Vec<String> {
        self.others.iter().map(|id| line(&Command::Abort { session_id: Some(id.clone()) })).collect()
    }

    fn clear(&mut self) -> Option<Exchange> {
        (self.ready, self.sent) = (false, None);
        Some(Exchange { events: Vec::new(), write: vec![line(&Command::Clear)] })
    }

    /// Only while something is at work: its beginning is told unasked, and a loss is made good by the bridge.
    fn ask(&mut self) -> Vec<String> {
        let works = self.told || !self.others.is_empty();
        works.then(|| line(&Command::Status)).into_iter().collect()
    }

    fn save(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn restore(&mut self, saved: &Value) {
        if let Ok(saved) = Self::deserialize(saved) {
            *self = saved;
        }
    }

    /// Without a configured command: the program, told the session instead of to serve.
    fn resume(&self, spec: &EngineSpec, engine_session_id: Option<&str>, cwd: &str) -> Option<ResumeCommand> {
        configured_resume(spec, engine_session_id, cwd).or_else(|| {
            let serve = spec.command.iter().position(|part| part == "serve").filter(|at| *at > 0)?;
            let mut command = spec.command.get(..serve)?.to_vec();
            command.extend(["--session".to_owned(), engine_session_id?.to_owned()]);
            Some(ResumeCommand { command, cwd: cwd.to_owned() })
        })
    }
}

/// Its own variables, and the keys of the providers that it reads from the environment.
const PASSED_ON: &[&str] = &[
    "OPENCODE_*",
    "ANTHROPIC_*",
    "OPENAI_*",
    "GEMINI_*",
    "GOOGLE_*",
    "GROQ_*",
    "MISTRAL_*",
    "OPENROUTER_*",
    "XAI_*",
    "DEEPSEEK_*",
];

fn output(task: Option<String>) -> Event {
    Event::Output { task }
}

fn line(command: &Command) -> String {
    let text = serde_json::to_string(command).unwrap_or_default();
    format!("{text}\n")
}
