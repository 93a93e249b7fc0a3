//! One engine's state under one lock: every question whether it may be stopped is decided here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::protocol::{Ended, EngineExit, EngineState, Told, TrackedSession};
use crate::runner::doings::Doings;
use crate::runner::engines::{Adapter, Event, Exchange};
use crate::runner::listeners::Listeners;
use crate::runner::process::Identity;
use crate::runner::settings::EngineSpec;
use crate::runner::shim::wire::{Containment, Hello, Taken};
use crate::session::Id;
use crate::time::Ms;

/// How many bytes an engine's own id of its conversation may have; a longer one is ignored.
const CONVERSATION_MOST: usize = 256;

/// How far an engine's life has come, for those who wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its shim is on the way.
    Starting,
    /// It runs.
    Running,
    /// It is being stopped, or left by itself; something of it may be left.
    Ending,
    /// Nothing of it is left, and the record of its end is on disk.
    Gone(Arc<Ended>),
}

/// Why an engine is ending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Ending {
    /// The reason that its record will give.
    pub(crate) reason: String,
    /// The sweep that asked for it.
    pub(crate) sweep_id: Option<Id>,
    /// A sentence for people.
    pub(crate) detail: Option<String>,
    /// The runner closed its input, and did not only see it leave.
    pub(crate) asked: bool,
    /// The memory that its tree held when that began.
    pub(crate) freed_bytes: Option<i64>,
}

/// What an engine is started from.
pub(crate) struct Plan {
    /// The engine's name, a key of the settings.
    pub(crate) name: String,
    /// How it speaks.
    pub(crate) adapter: Box<dyn Adapter>,
    /// What the settings say of it.
    pub(crate) spec: EngineSpec,
    /// The folder to run it in.
    pub(crate) cwd: String,
    /// On whose behalf.
    pub(crate) owner_id: Option<String>,
}

/// One engine, from its start until its end is recorded.
pub(crate) struct Engine {
    /// The session.
    pub(crate) id: Id,
    /// The engine's name, a key of the settings.
    pub(crate) engine_name: String,
    /// What the settings say of it.
    pub(crate) spec: EngineSpec,
    /// The folder it runs in.
    pub(crate) cwd: String,
    /// On whose behalf it runs.
    pub(crate) owner_id: Option<String>,
    /// What is wanted of it goes here, to whoever talks with its shim.
    pub(crate) errands: mpsc::Sender<Errand>,
    /// Cancelled when its stop begins: its shim is told.
    pub(crate) closing: CancellationToken,
    /// Who reads its output as it comes.
    pub(crate) listeners: Listeners,
    /// Held by whoever is about to change its generation or to end it, so that what is on disk stays in step.
    pub(crate) change: tokio::sync::Mutex<()>,
    stage: watch::Sender<Stage>,
    /// Up to where its output has come.
    head: watch::Sender<u64>,
    /// How often a turn of it has ended.
    turns: watch::Sender<u64>,
    /// Told whenever it has said something.
    told: watch::Sender<()>,
    facts: Mutex<Facts>,
}

/// Something that is wanted of an engine, and where to say what became of it.
pub(crate) enum Errand {
    /// A person's message, with the id that its sender may have given it.
    Message { text: String, id: Option<Id>, told: oneshot::Sender<Taken> },
    /// The running turn is to be interrupted.
    Interrupt { told: oneshot::Sender<Taken> },
    /// A fresh conversation is to be begun; nothing is told when the engine cannot do that.
    Clear { told: oneshot::Sender<Option<Taken>> },
    /// Its state is to be asked for, where it tells it only when asked.
    Ask,
    /// What is known about it is to be kept by its shim.
    Keep { told: oneshot::Sender<()> },
}

/// What of an engine's state a shim keeps for the next life of the runner.
#[derive(Serialize, Deserialize)]
pub(crate) struct Saved {
    doings: Doings,
    adapter: serde_json::Value,
    /// How many bytes of standard error were heard.
    errors: u64,
    /// The turn was interrupted since it stalled.
    #[serde(default)]
    stall_answered: bool,
}

/// What the lock guards.
pub(crate) struct Facts {
    /// Which start of the session it belongs to.
    pub(crate) generation: i64,
    /// Why it is ending; none while it is not.
    pub(crate) ending: Option<Ending>,
    /// How it speaks.
    pub(crate) adapter: Box<dyn Adapter>,
    /// What it is doing.
    pub(crate) doings: Doings,
    /// Its own id of the conversation.
    pub(crate) engine_session_id: Option<String>,
    /// Its process.
    pub(crate) process: Option<Identity>,
    /// Its shim's process id.
    pub(crate) shim: Option<i32>,
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
}

impl Engine {
    /// Makes the session of an engine that is about to be started; the receiver is for whoever talks with its shim.
    #[must_use]
    pub(crate) fn starting(id: Id, generation: i64, plan: Plan, now: Ms) -> (Arc<Self>, mpsc::Receiver<Errand>) {
        let (errands, receiver) = mpsc::channel(16);
        let facts = Facts {
            generation,
            ending: None,
            adapter: plan.adapter,
            doings: Doings::started(now),
            engine_session_id: None,
            process: None,
            shim: None,
            exit: None,
            messages_on_their_way: 0,
            settled: false,
            stuck: Vec::new(),
            trouble: None,
            containment: Containment::BestEffort,
            errors: 0,
            farewell: (String::new(), false),
            stall_answered: false,
            unread: false,
        };
        let session = Self {
            id,
            engine_name: plan.name,
            spec: plan.spec,
            cwd: plan.cwd,
            owner_id: plan.owner_id,
            errands,
            closing: CancellationToken::new(),
            listeners: Listeners::default(),
            change: tokio::sync::Mutex::new(()),
            stage: watch::Sender::new(Stage::Starting),
            head: watch::Sender::new(0),
            turns: watch::Sender::new(0),
            told: watch::Sender::new(()),
            facts: Mutex::new(facts),
        };
        (Arc::new(session), receiver)
    }

    /// Takes the lock. Nothing waits while it is held.
    pub(crate) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what its output says. What it says while it is being stopped is no use.
    ///
    /// An id of its conversation is not taken from here: that is on disk before anybody is told of it.
    pub(crate) fn heard(&self, events: &[Event], now: Ms) {
        let mut facts = self.facts();
        if facts.ending.is_some() {
            return;
        }
        let was_in_turn = facts.doings.in_turn();
        for event in events {
            facts.doings.heard(event, now);
        }
        facts.stall_answered &= facts.doings.turn_silent(now).is_some_and(|silent| silent > 0);
        let in_turn = facts.doings.in_turn();
        drop(facts);
        let ended = events.contains(&Event::TurnEnded) || (was_in_turn && !in_turn);
        if ended {
            self.turns.send_modify(|count| *count += 1);
        }
    }

    /// Reads one line of its output; the caller writes what is to be written and hands the events to [`Engine::heard`].
    pub(crate) fn read(&self, line: &[u8]) -> Exchange {
        let exchange = self.facts().adapter.read(line);
        self.told.send_replace(());
        exchange
    }

    /// Takes note that its output has ended. While it lives, nobody can tell what it is doing any more.
    pub(crate) fn fell_mute(&self) {
        self.facts().doings.fell_mute();
    }

    /// Returns what its shim is to keep of its state.
    #[must_use]
    pub(crate) fn saved(&self) -> String {
        let facts = self.facts();
        saved(&facts, facts.doings.clone())
    }

    /// Takes up what an earlier life of the runner saved; false when it cannot be understood.
    pub(crate) fn take_up(&self, state: &str) -> bool {
        let Ok(saved) = serde_json::from_str::<Saved>(state) else { return false };
        let mut facts = self.facts();
        let mute = facts.doings.is_mute();
        facts.doings = saved.doings;
        if mute {
            // How it speaks is not known, whatever an earlier life made of it.
            facts.doings.fell_mute();
        }
        facts.errors = saved.errors;
        facts.stall_answered = saved.stall_answered;
        facts.adapter.restore(&saved.adapter);
        true
    }

    /// Takes note that there is more output.
    pub(crate) fn grew(&self, head: u64) {
        self.head.send_if_modified(|known| {
            let more = head > *known;
            *known = head.max(*known);
            more
        });
    }

    /// Follows up to where its output has come.
    pub(crate) fn head(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// Follows how often a turn of it has ended.
    pub(crate) fn turns(&self) -> watch::Receiver<u64> {
        self.turns.subscribe()
    }

    /// Marks it as running.
    pub(crate) fn runs(&self, process: Identity, shim: i32, containment: Containment) {
        let mut facts = self.facts();
        (facts.process, facts.shim) = (Some(process), Some(shim));
        facts.containment = containment;
        if facts.ending.is_none() {
            self.stage.send_replace(Stage::Running);
        }
    }

    /// Marks it as running under a shim that an earlier life of the runner had started.
    pub(crate) fn known_to_run(&self, hello: &Hello) {
        if let Some(engine) = hello.engine {
            self.runs(engine, hello.shim.pid, hello.containment);
        }
    }

    /// Marks it as there, though its shim does not answer.
    pub(crate) fn is_unreached(&self) {
        self.stage.send_replace(Stage::Running);
    }

    /// Marks it as ending, under the lock that the caller holds, unless it is already.
    pub(crate) fn begin_end(&self, facts: &mut Facts, ending: Ending) -> bool {
        if facts.ending.is_some() {
            return false;
        }
        facts.ending = Some(ending);
        self.stage.send_replace(Stage::Ending);
        true
    }

    /// Marks it as gone: the record is on disk.
    pub(crate) fn is_gone(&self, ended: Ended) {
        self.stage.send_replace(Stage::Gone(Arc::new(ended)));
    }

    /// Waits until its start has come to something.
    pub(crate) async fn started(&self) {
        let mut stage = self.stage.subscribe();
        let _ = stage.wait_for(|stage| *stage != Stage::Starting).await;
    }

    /// Waits until messages can be written to it, or never will be, or it is ending.
    pub(crate) async fn can_be_told(&self) {
        let mut told = self.told.subscribe();
        let ready = async {
            while !self.facts().is_decided() {
                if told.changed().await.is_err() {
                    break;
                }
            }
        };
        tokio::select! {
            () = ready => {}
            () = self.ends() => {}
        }
    }

    /// Waits until it is ending or gone.
    pub(crate) async fn ends(&self) {
        let mut stage = self.stage.subscribe();
        let _ = stage.wait_for(|stage| matches!(stage, Stage::Ending | Stage::Gone(_))).await;
    }

    /// Waits until nothing of it is left and its record is on disk.
    pub(crate) async fn gone(&self) -> Option<Arc<Ended>> {
        let mut stage = self.stage.subscribe();
        let stage = stage.wait_for(|stage| matches!(stage, Stage::Gone(_))).await.ok()?;
        match &*stage {
            Stage::Gone(ended) => Some(Arc::clone(ended)),
            Stage::Starting | Stage::Running | Stage::Ending => None,
        }
    }

    /// Returns the element of the tracked set that stands for it, without what its processes cost.
    #[must_use]
    pub(crate) fn tracked(&self, now: Ms, stall_after: Ms) -> TrackedSession {
        let facts = self.facts();
        TrackedSession {
            generation: Some(facts.generation),
            engine: Some(self.engine_name.clone()),
            state: facts.state(now, stall_after),
            pid: facts.process.map(|process| i64::from(process.pid)),
            attached: Some(self.listeners.count()),
            containment: Some(facts.containment.to_string()),
            engine_session_id: facts.engine_session_id.clone(),
            ..TrackedSession::bare(self.id.clone())
        }
    }
}

/// Writes down what a shim is to keep of an engine that does what `doings` says.
#[must_use]
pub(crate) fn saved(facts: &Facts, doings: Doings) -> String {
    let (errors, stall_answered) = (facts.errors, facts.stall_answered);
    let saved = Saved { doings, adapter: facts.adapter.save(), errors, stall_answered };
    // Plain data with text keys: nothing of it can fail to be written.
    serde_json::to_string(&saved).unwrap_or_default()
}

/// Returns whether an engine's own id of its conversation is one that can be shown, kept and put into a command.
pub(crate) fn is_printable(id: &str) -> bool {
    (1..=CONVERSATION_MOST).contains(&id.len()) && !id.chars().any(char::is_control)
}

/// Returns whether a call on behalf of `asked` may know of what belongs to `owner`; one on nobody's behalf may.
#[must_use]
pub(crate) fn is_for(asked: Option<&str>, owner: Option<&str>) -> bool {
    asked.is_none_or(|asked| owner == Some(asked))
}

impl Facts {
    /// Returns whether waiting for it to become ready is over: it is, or says that it never will be.
    fn is_decided(&self) -> bool {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_conversation_is_short_and_can_be_printed() {
        for good in ["7", "5f0c-9d", "a id with spaces", &"x".repeat(256)] {
            assert!(is_printable(good), "{good}");
        }
        for bad in ["", "a\nb", "\u{1b}[2J", "a\0", &"x".repeat(257)] {
            assert!(!is_printable(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_call_on_an_owners_behalf_knows_only_of_that_owners() {
        assert!(is_for(None, Some("ann")) && is_for(None, None) && is_for(Some("ann"), Some("ann")));
        assert!(!is_for(Some("bob"), Some("ann")) && !is_for(Some("bob"), None));
    }
}
