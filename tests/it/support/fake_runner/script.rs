//! What the fake runner holds, what it was told to answer, and what it was asked.

use std::collections::{BTreeMap, HashMap};

use sexton::protocol::{Because, Ended, EngineState, Told, path};
use sexton::session::Id;
use sexton::time::{Ms, UtcMs};

/// A route of the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Sessions,
    End,
    Touch,
    Messages,
    Start,
    Forget,
    Health,
    Interrupt,
    Clear,
}

impl Verb {
    /// Returns the route at a path, if there is one.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path {
            path::SESSIONS => Some(Self::Sessions),
            path::END => Some(Self::End),
            path::TOUCH => Some(Self::Touch),
            path::MESSAGES => Some(Self::Messages),
            path::START => Some(Self::Start),
            path::FORGET => Some(Self::Forget),
            path::HEALTH => Some(Self::Health),
            path::INTERRUPT => Some(Self::Interrupt),
            path::CLEAR => Some(Self::Clear),
            _ => None,
        }
    }
}

/// An answer given byte by byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Raw {
    /// Makes an answer that says that its body is JSON, whether it is or not.
    pub(crate) fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }.with("content-type", "application/json")
    }

    /// Makes an answer without a body.
    pub(crate) fn bare(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// How a call is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answering {
    /// As a runner in this state does.
    Truly,
    /// With these bytes, doing nothing.
    Raw(Raw),
    /// Not at all; the connection stays open.
    Hang,
    /// With headers, and then not at all.
    HangAfterHeaders,
    /// By closing the connection, doing nothing.
    Reset,
    /// With headers that promise more than the body holds.
    CutOff,
    /// With a body that never ends.
    Endless,
    /// Does what is asked, and then answers like this instead: a lost acknowledgement.
    DoThen(Box<Self>),
    /// `end` alone: keeps the engine and says why.
    Refuse(Because),
    /// `end` alone: says that it is being stopped, and does not.
    Accept,
    /// Does what is asked, and answers with these fields replaced: another id, generation, runner or epoch.
    Altered(serde_json::Value),
}

/// One recorded call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// Its place among the calls of all fake runners of the process.
    pub(crate) seq: u64,
    /// When it arrived, on the runner's clock.
    pub(crate) at: UtcMs,
    pub(crate) verb: Verb,
    /// The session that it names.
    pub(crate) session_id: Option<Id>,
    /// The query, without the question mark.
    pub(crate) query: String,
    /// The body; null where it is not JSON.
    pub(crate) body: serde_json::Value,
    /// The bearer token that it came with.
    pub(crate) secret: Option<String>,
}

/// One engine that was really stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) session_id: Id,
    pub(crate) generation: i64,
    /// When, on the runner's clock.
    pub(crate) at: UtcMs,
    /// The pass that asked for it; a foreign runner is told none.
    pub(crate) sweep_id: Option<Id>,
    /// What the engine was doing right then.
    pub(crate) state: EngineState,
}

/// A guard that a runner may lack, to show what it is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// It compares the generation of a stop with that of its engine.
    Generation,
    /// It refuses a stop that rests on an old answer.
    Stamp,
    /// It keeps a record of each end until it is told to forget.
    Records,
    /// It checks the condition of a stop itself.
    Condition,
}

/// An engine that the fake holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FakeEngine {
    pub(crate) generation: i64,
    /// The generation under which it was launched.
    pub(crate) start: i64,
    /// Its state at `since`.
    state: EngineState,
    since: Ms,
    /// The messages it got.
    pub(crate) messages: Vec<String>,
    /// The senders' ids of the messages that it took.
    pub(crate) message_ids: Vec<Id>,
    /// How often it was interrupted.
    pub(crate) interrupts: usize,
    /// The engine's own id of its conversation.
    pub(crate) conversation: Option<String>,
}

impl FakeEngine {
    /// Makes one that is in `state` when the runner's waking clock shows `awake`.
    pub(super) fn new(generation: i64, state: EngineState, awake: Ms) -> Self {
        Self {
            generation,
            start: generation,
            state,
            since: awake,
            messages: Vec::new(),
            message_ids: Vec::new(),
            interrupts: 0,
            conversation: None,
        }
    }

    /// Returns its state when the clock shows `awake`.
    pub(crate) fn state_at(&self, awake: Ms) -> EngineState {
        let passed = awake - self.since;
        let older = |age: Option<Ms>| age.map(|ms| ms + passed);
        EngineState {
            idle_ms: self.state.idle_ms.value().map_or(self.state.idle_ms, |ms| Told::Is(ms + passed)),
            turn_silent_ms: older(self.state.turn_silent_ms),
            background_silent_ms: older(self.state.background_silent_ms),
            awaiting_ms: older(self.state.awaiting_ms),
            next_wake_in_ms: self.state.next_wake_in_ms.map(|ms| ms - passed),
            ..self.state.clone()
        }
    }

    /// Makes its idle clock start anew.
    pub(super) fn use_at(&mut self, awake: Ms) {
        self.state = EngineState { idle_ms: Told::Is(0), ..self.state_at(awake) };
        self.since = awake;
    }
}

type Key = (Verb, Option<Id>);

/// The state of the fake runner, and its orders.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) runner_id: Id,
    pub(crate) epoch: i64,
    /// The state folder that it says it runs on; none says nothing.
    pub(crate) state_id: Option<String>,
    pub(crate) ready: bool,
    pub(crate) complete: bool,
    /// It is one that someone else wrote.
    pub(crate) foreign: bool,
    /// As a foreign one, it lists objects with the engines' states instead of bare ids.
    pub(crate) tells_states: bool,
    /// The guard that it lacks.
    pub(crate) lacks: Option<Guard>,
    /// The token that it wants; none wants none.
    pub(crate) secret: Option<String>,
    pub(crate) engines: BTreeMap<Id, FakeEngine>,
    /// Its end records, each with when it was made on the clock that runs on in sleep.
    pub(crate) ended: Vec<(Ms, Ended)>,
    /// The highest generation of each session that ended.
    pub(crate) highest_ended: BTreeMap<Id, i64>,
    /// Every engine that it stopped because it was asked to.
    pub(crate) stops: Vec<Stop>,
    pub(super) always: HashMap<Key, Answering>,
    pub(super) once: Vec<(Key, Answering)>,
}

impl Script {
    pub(super) fn new() -> Self {
        Self {
            runner_id: "mac-mini".parse().unwrap(),
            epoch: 1,
            state_id: None,
            ready: true,
            complete: true,
            foreign: false,
            tells_states: false,
            lacks: None,
            secret: None,
            engines: BTreeMap::new(),
            ended: Vec::new(),
            highest_ended: BTreeMap::new(),
            stops: Vec::new(),
            always: HashMap::new(),
            once: Vec::new(),
        }
    }

    /// Takes all orders back.
    pub(crate) fn behave(&mut self) {
        self.always.clear();
        self.once.clear();
    }

    /// Returns how to answer this call: an order for the session before one for all, a single one before a lasting one.
    pub(super) fn orders(&mut self, verb: Verb, session_id: Option<&Id>) -> Answering {
        let keys = [(verb, session_id.cloned()), (verb, None)];
        let next = keys.iter().find_map(|key| self.once.iter().position(|(known, _)| known == key));
        match next {
            Some(at) => self.once.remove(at).1,
            None => keys.iter().find_map(|key| self.always.get(key)).cloned().unwrap_or(Answering::Truly),
        }
    }
}
