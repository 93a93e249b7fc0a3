//! Any agent of the Agent Client Protocol, version 1: JSON-RPC, one message per line.
//!
//! A turn is a `session/prompt` request without its response. Nothing is offered to the agent (no files, no terminals),
//! no permission is ever granted here, and the protocol knows no background tasks, so nothing is told about them.

mod wire;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::protocol::ResumeCommand;
use crate::runner::engines::acp::wire::{Can, Heard, cancelled, notification, request, unknown_method};
use crate::runner::engines::{Adapter, Event, Exchange, Interrupt, Opening, Written, configured_resume, unready};
use crate::runner::settings::EngineSpec;

#[cfg(test)]
mod tests;

/// The version of the protocol that is spoken here.
const VERSION: i64 = 1;
/// The ids of our requests; a turn's are from [`PROMPTS`] on, so that they are known for what they are.
const INITIALIZE: u64 = 1;
const OPEN: u64 = 2;
const CLOSE: u64 = 3;
const PROMPTS: u64 = 1_000;
/// How many turns may have been forgotten.
const FORGOTTEN_MOST: u64 = 1_000;
/// How many permissions may be asked for at once, and how many bytes the id of such a request may have.
const ASKED_MOST: usize = 100;
const ASKED_ID_MOST: usize = 256;

/// An agent that speaks the Agent Client Protocol.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Acp {
    ready: bool,
    cwd: String,
    /// The conversation; before it is open, the one that is to be taken up.
    session: Option<String>,
    can: Can,
    /// How many turns were asked for.
    asked_for: u64,
    /// The requests of turns without a response.
    running: BTreeSet<u64>,
    /// The agent's requests for a permission that nobody answered.
    asked: Vec<Value>,
    /// A question was told, and not that it is answered.
    waits: bool,
    /// Why no conversation is open and none will be.
    trouble: Option<String>,
}

impl Acp {
    fn responded(&mut self, id: u64, result: Option<&Value>, error: &Value) -> Exchange {
        match id {
            INITIALIZE => self.initialized(result, error),
            OPEN => self.opened(result, error),
            CLOSE => says(Event::Status),
            // One that is not known any more may be from before a crash; a far-off number is none of ours.
            PROMPTS.. if id - PROMPTS < self.asked_for.saturating_add(FORGOTTEN_MOST) => self.turn_done(id),
            _ => says(output()),
        }
    }

    /// An agent that speaks another version, or refused, is never ready.
    fn initialized(&mut self, result: Option<&Value>, error: &Value) -> Exchange {
        let Some(result) = result else { return self.never_ready(unready("the agent refuses to begin", error)) };
        if result["protocolVersion"] != VERSION {
            let why = format!("the agent does not speak version {VERSION} of the protocol");
            return self.never_ready(why);
        }
        self.can = Can::read(&result["agentCapabilities"]);
        let taken_up = json!({"sessionId": self.session, "cwd": self.cwd, "mcpServers": []});
        let write = match (&self.session, self.can.resume, self.can.load) {
            (None, ..) => self.begin(),
            (Some(_), true, _) => request(OPEN, "session/resume", &taken_up),
            (Some(_), false, true) => request(OPEN, "session/load", &taken_up),
            // A fresh conversation is not what was asked for.
            (Some(_), false, false) => return self.never_ready("the agent cannot take a conversation up".to_owned()),
        };
        Exchange { events: vec![Event::Status], write: vec![write] }
    }

    fn never_ready(&mut self, why: String) -> Exchange {
        self.trouble = Some(why);
        says(output())
    }

    fn begin(&self) -> String {
        request(OPEN, "session/new", &json!({"cwd": self.cwd, "mcpServers": []}))
    }

    /// One that is taken up keeps its id; a refusal leaves the agent unready.
    fn opened(&mut self, result: Option<&Value>, error: &Value) -> Exchange {
        let id = result.map(|result| result["sessionId"].as_str().map(str::to_owned).or(self.session.clone()));
        let Some(Some(id)) = id else {
            return self.never_ready(unready("the agent cannot open the conversation", error));
        };
        (self.ready, self.trouble) = (true, None);
        self.session = Some(id.clone());
        // It tells turns, and none runs in a conversation that was just opened.
        self.running.clear();
        Exchange { events: [Event::Session(id)].into_iter().chain(self.idle()).collect(), write: Vec::new() }
    }

    fn turn_done(&mut self, id: u64) -> Exchange {
        self.running.remove(&id);
        self.asked_for = self.asked_for.max(id - PROMPTS + 1);
        if !self.running.is_empty() {
            return says(output());
        }
        Exchange { events: self.idle().collect(), write: Vec::new() }
    }

    /// A turn that is over waits for nobody.
    fn idle(&mut self) -> impl Iterator<Item = Event> + use<> {
        self.asked.clear();
        let answered = std::mem::take(&mut self.waits).then_some(Event::InputReceived);
        answered.into_iter().chain([Event::TurnEnded])
    }

    fn requested(&mut self, id: &Value, method: &str) -> Exchange {
        let keeps = self.asked.len() < ASKED_MOST && id.to_string().len() <= ASKED_ID_MOST;
        if method != "session/request_permission" || !keeps {
            return Exchange { events: vec![output()], write: vec![unknown_method(id, method)] };
        }
        self.asked.push(id.clone());
        self.waits = true;
        says(Event::AwaitingInput)
    }

    fn withdrawn(&mut self, id: &Value) -> Exchange {
        self.asked.retain(|asked| asked != id);
        let over = self.asked.is_empty() && std::mem::take(&mut self.waits);
        self.waits |= !self.asked.is_empty();
        says(if over { Event::InputReceived } else { output() })
    }

    /// Writes what cancels the running turns; the protocol wants every open request for a permission answered so.
    fn cancel(&mut self) -> Vec<String> {
        if self.running.is_empty() {
            return Vec::new();
        }
        let answers = std::mem::take(&mut self.asked);
        let cancel = notification("session/cancel", &json!({"sessionId": self.session}));
        std::iter::once(cancel).chain(answers.iter().map(cancelled)).collect()
    }

    fn close(&self) -> Option<String> {
        let id = self.session.as_ref().filter(|_| self.ready && self.can.close)?;
        Some(request(CLOSE, "session/close", &json!({"sessionId": id})))
    }
}

impl Adapter for Acp {
    fn command(&self, spec: &EngineSpec, _opening: &Opening) -> Vec<String> {
        spec.command.clone()
    }

    fn passes_on(&self) -> &'static [&'static str] {
        PASSED_ON
    }

    fn greet(&mut self, opening: &Opening) -> Exchange {
        *self = Self { cwd: opening.cwd.clone(), session: opening.engine_session_id.clone(), ..Self::default() };
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": "sexton", "version": env!("CARGO_PKG_VERSION")},
        });
        Exchange { events: Vec::new(), write: vec![request(INITIALIZE, "initialize", &params)] }
    }

    fn tells_tasks(&self) -> bool {
        false
    }

    fn is_ready(&self) -> bool {
        self.ready
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }

    fn read(&mut self, line: &[u8]) -> Exchange {
        match wire::hear(line) {
            Heard::Response { id, result, error } => self.responded(id, result.as_ref(), &error),
            Heard::Request { id, method } => self.requested(&id, &method),
            Heard::Withdrawn { id } => self.withdrawn(&id),
            Heard::Else => says(output()),
        }
    }

    fn written(&self, line: &[u8]) -> Option<Written> {
        let line: Value = serde_json::from_slice(line).ok()?;
        let (params, update) = (&line["params"], &line["params"]["update"]);
        let is_text = line["method"] == "session/update"
            && params["sessionId"].as_str() == self.session.as_deref()
            && update["sessionUpdate"] == "agent_message_chunk"
            && update["content"]["type"] == "text";
        let text = update["content"]["text"].as_str().filter(|_| is_text)?;
        Some(Written::More { part: String::new(), text: text.to_owned() })
    }

    fn message(&mut self, text: &str) -> Exchange {
        let id = PROMPTS + self.asked_for;
        self.asked_for += 1;
        let first = self.running.is_empty();
        self.running.insert(id);
        let mut events = vec![if first { Event::TurnStarted } else { output() }];
        // A message is no answer to a request for a permission.
        events.extend(self.waits.then_some(Event::AwaitingInput));
        let prompt = json!({"sessionId": self.session, "prompt": [{"type": "text", "text": text}]});
        Exchange { events, write: vec![request(id, "session/prompt", &prompt)] }
    }

    fn interrupt(&mut self) -> Interrupt {
        Interrupt::Write(self.cancel())
    }

    /// Closes the conversation where the agent can: it must end what runs for it and let go of it.
    fn stop_tasks(&mut self) -> Vec<String> {
        self.close().into_iter().collect()
    }

    fn clear(&mut self) -> Option<Exchange> {
        let mut write = self.cancel();
        write.extend(self.close());
        write.push(self.begin());
        (self.ready, self.trouble) = (false, None);
        Some(Exchange { events: Vec::new(), write })
    }

    fn save(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn restore(&mut self, saved: &Value) {
        if let Ok(saved) = Self::deserialize(saved) {
            *self = saved;
        }
    }

    fn resume(&self, spec: &EngineSpec, engine_session_id: Option<&str>, cwd: &str) -> Option<ResumeCommand> {
        configured_resume(spec, engine_session_id, cwd)
    }
}

/// The variables of the agents that speak the protocol, and the keys of the providers that they use.
const PASSED_ON: &[&str] = &[
    "GEMINI_*",
    "GOOGLE_*",
    "GOOSE_*",
    "OPENCODE_*",
    "ANTHROPIC_*",
    "OPENAI_*",
    "GROQ_*",
    "MISTRAL_*",
    "OPENROUTER_*",
    "XAI_*",
    "DEEPSEEK_*",
];

fn output() -> Event {
    Event::Output { task: None }
}

fn says(event: Event) -> Exchange {
    Exchange { events: vec![event], write: Vec::new() }
}
