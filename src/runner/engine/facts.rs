//! What is known of one engine: what its lock guards, and what of that its shim keeps for the next life of the runner.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::protocol::{EngineExit, EngineState, Told};
use crate::runner::doings::Doings;
use crate::runner::engine::Ending;
use crate::runner::engines::{Adapter, Event, Exchange};
use crate::runner::intents::EndIntent;
use crate::runner::process::Identity;
use crate::runner::shim::wire::Containment;
use crate::session::Id;
use crate::time::Ms;

/// How many ids of messages are remembered.
const MESSAGES_MOST: usize = 64;

/// What the lock guards.
pub(crate) struct Facts {
    /// Which start of the session it belongs to.
    pub(crate) generation: i64,
    /// Why it is ending; none while it is not.
    pub(crate) ending: Option<Ending>,
    /// The stop that an earlier life wrote down, until its shim tells whether that had begun; and one of this life's own.
    pub(crate) unfinished: Option<EndIntent>,
    /// How it speaks.
    pub(crate) adapter: Box<dyn Adapter>,
    /// What it is doing.
    pub(crate) doings: Doings,
    /// Its own id of the conversation.
    pub(crate) engine_session_id: Option<String>,
    /// Its process.
    pub(crate) process: Option<Identity>,
    /// Its shim's process.
    pub(crate) shim: Option<Identity>,
    /// How its process ended.
    pub(crate) exit: Option<EngineExit>,
    /// Messages that are on their way to it while their senders wait.
    pub(crate) messages_on_their_way: usize,
    /// It has lived for long enough to have started.
    pub(crate) settled: bool,
    /// What could not be killed so far.
    pub(crate) stuck: Vec<String>,
    /// What is wrong with its shim, in one sentence.
    pub(crate) trouble: Option<String>,
    /// It says that it holds another owner's conversation, in one sentence.
    pub(crate) disbelieved: Option<String>,
    /// What holds its process tree together.
    pub(crate) containment: Containment,
    /// How many bytes of its standard error were heard.
    pub(crate) errors: u64,
    /// What is written to it at the beginning of its stop, and whether it gets SIGINT then.
    pub(crate) farewell: (String, bool),
    /// It was interrupted since its turn stalled.
    pub(crate) stall_answered: bool,
    /// It may have said things that this runner has not read, since its shim was not met or what it logged is long.
    pub(crate) unread: bool,
    /// It has said something that was not read yet.
    pub(crate) behind: bool,
    /// The ids of the last messages that it has, or that are on their way to it.
    pub(crate) messages: VecDeque<Id>,
    /// Up to where its output was read: the end of a line. What is known of it rests on exactly that much.
    pub(crate) read_to: u64,
    /// Where the output of the running turn begins.
    pub(crate) turn_from: Option<u64>,
}

/// What of an engine's state a shim keeps for the next life of the runner.
#[derive(Serialize, Deserialize)]
struct Saved {
    doings: Doings,
    adapter: serde_json::Value,
    /// How many bytes of standard error were heard.
    errors: u64,
    /// The turn was interrupted since it stalled.
    #[serde(default)]
    stall_answered: bool,
    /// The ids of the last messages that it has.
    #[serde(default)]
    messages: VecDeque<Id>,
    /// Where the output of the running turn begins.
    #[serde(default)]
    turn_from: Option<u64>,
}

impl Facts {
    /// Writes a person's message; none when one of this id was taken before, which then changes nothing.
    pub(crate) fn message(&mut self, text: &str, id: &Id) -> Option<Exchange> {
        if self.messages.contains(id) {
            return None;
        }
        self.messages.push_back(id.clone());
        if self.messages.len() > MESSAGES_MOST {
            self.messages.pop_front();
        }
        Some(self.adapter.message(text))
    }

    /// Takes note of some of its output, and of where a turn's output begins.
    pub(crate) fn heard(&mut self, event: &Event, now: Ms) {
        self.doings.heard(event, now);
        self.turn_from = turn_from(self, &self.doings);
    }

    /// Returns whether waiting for it to become ready is over: it is, or says that it never will be.
    pub(crate) fn is_decided(&self) -> bool {
        self.adapter.is_ready() || self.adapter.trouble().is_some()
    }

    /// Returns what the engine is doing; all of it is unknown while there may be more to be read.
    #[must_use]
    pub(crate) fn state(&self, now: Ms, stall_after: Ms) -> EngineState {
        let state = self.doings.state(now, stall_after);
        let tasks = self.adapter.tells_tasks() || state.background_tasks == Told::Unknown;
        let state = if tasks { state } else { EngineState { background_tasks: Told::Silent, ..state } };
        if !self.unread {
            return state;
        }
        EngineState {
            generating: Told::Unknown,
            background_tasks: Told::Unknown,
            awaiting_input: Told::Unknown,
            stalled: Told::Unknown,
            idle_ms: Told::Unknown,
            ..state
        }
    }

    /// Takes up what an earlier life of the runner saved; false when it cannot be understood.
    pub(crate) fn take_up(&mut self, state: &str) -> bool {
        let Ok(saved) = serde_json::from_str::<Saved>(state) else { return false };
        let mute = self.doings.is_mute();
        self.doings = saved.doings;
        if mute {
            // How it speaks is not known, whatever an earlier life made of it.
            self.doings.fell_mute();
        }
        self.errors = saved.errors;
        self.stall_answered = saved.stall_answered;
        self.messages = saved.messages;
        self.turn_from = saved.turn_from;
        self.adapter.restore(&saved.adapter);
        true
    }
}

/// Writes down what a shim is to keep of an engine that does what `doings` says.
#[must_use]
pub(crate) fn saved(facts: &Facts, doings: Doings) -> String {
    let (errors, stall_answered, messages) = (facts.errors, facts.stall_answered, facts.messages.clone());
    let turn_from = turn_from(facts, &doings);
    let saved = Saved { doings, adapter: facts.adapter.save(), errors, stall_answered, messages, turn_from };
    // Plain data with text keys: nothing of it can fail to be written.
    serde_json::to_string(&saved).unwrap_or_default()
}

/// Returns where the output of the turn begins that runs by `doings`: what was read so far is not part of a fresh one.
fn turn_from(facts: &Facts, doings: &Doings) -> Option<u64> {
    doings.in_turn().then(|| facts.turn_from.unwrap_or(facts.read_to))
}
