//! One engine's state under one lock: every question whether it may be stopped is decided here.

mod facts;
mod stage;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

pub(crate) use facts::{Facts, saved};

use crate::protocol::TrackedSession;
use crate::runner::doings::Doings;
use crate::runner::engine::stage::Stage;
use crate::runner::engines::{Adapter, Event, Exchange};
use crate::runner::listeners::Listeners;
use crate::runner::settings::EngineSpec;
use crate::runner::shim::wire::{Containment, Taken};
use crate::session::Id;
use crate::time::Ms;

/// How many bytes an engine's own id of its conversation may have; a longer one is ignored.
const CONVERSATION_MOST: usize = 256;

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
    /// Under which generation it is launched, or was.
    pub(crate) start: i64,
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
    /// Under which generation it was launched: what the cursors of its output name, however high it is raised.
    pub(crate) start: i64,
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
    /// Told whenever some of what it has said was read.
    read: watch::Sender<()>,
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

impl Engine {
    /// Makes the session of an engine that is about to be started; the receiver is for whoever talks with its shim.
    #[must_use]
    pub(crate) fn starting(id: Id, generation: i64, plan: Plan, now: Ms) -> (Arc<Self>, mpsc::Receiver<Errand>) {
        let (errands, receiver) = mpsc::channel(16);
        let facts = Facts {
            generation,
            ending: None,
            unfinished: None,
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
            disbelieved: None,
            containment: Containment::BestEffort,
            errors: 0,
            farewell: (String::new(), false),
            stall_answered: false,
            unread: false,
            behind: false,
            messages: VecDeque::new(),
            read_to: 0,
            turn_from: None,
        };
        let session = Self {
            id,
            start: plan.start,
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
            read: watch::Sender::new(()),
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
        self.take_in(events, now, None);
    }

    /// As [`Engine::heard`], of the line that ends at the offset `end`: what it says and how far was read change at once.
    pub(crate) fn heard_line(&self, events: &[Event], now: Ms, end: u64) {
        self.take_in(events, now, Some(end));
    }

    fn take_in(&self, events: &[Event], now: Ms, end: Option<u64>) {
        let mut facts = self.facts();
        if facts.ending.is_some() {
            facts.read_to = end.unwrap_or(facts.read_to);
            return;
        }
        let was_in_turn = facts.doings.in_turn();
        for event in events {
            facts.heard(event, now);
        }
        facts.read_to = end.unwrap_or(facts.read_to);
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
        self.facts().take_up(state)
    }

    /// Takes note whether it has said something that was not read yet.
    pub(crate) fn read_up_to_now(&self, behind: bool) {
        self.facts().behind = behind;
        self.read.send_replace(());
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

    /// Returns the element of the tracked set that stands for it, without what its processes cost.
    #[must_use]
    pub(crate) fn tracked(&self, now: Ms, stall_after: Ms) -> TrackedSession {
        self.element(&self.facts(), now, stall_after)
    }

    /// As [`Engine::tracked`], under the lock that the caller holds.
    pub(crate) fn element(&self, facts: &Facts, now: Ms, stall_after: Ms) -> TrackedSession {
        TrackedSession {
            generation: Some(facts.generation),
            start: Some(self.start),
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

/// Returns whether an engine's own id of its conversation is one that can be shown, kept and put into a command.
pub(crate) fn is_printable(id: &str) -> bool {
    (1..=CONVERSATION_MOST).contains(&id.len()) && !id.chars().any(char::is_control)
}

/// Returns whether a call on behalf of `asked` may know of what belongs to `owner`; one on nobody's behalf may.
#[must_use]
pub(crate) fn is_for(asked: Option<&str>, owner: Option<&str>) -> bool {
    asked.is_none_or(|asked| owner == Some(asked))
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
