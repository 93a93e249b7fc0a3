//! One engine's state under one lock: every question whether it may be stopped is decided here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::protocol::{Ended, EngineExit, EngineState, TrackedSession};
use crate::runner::doings::Doings;
use crate::runner::engines::{Adapter, Event};
use crate::runner::process::Identity;
use crate::runner::pump::{Outgoing, Tail};
use crate::runner::settings::EngineSpec;
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
    /// Bytes for its input go here.
    pub(crate) outgoing: mpsc::Sender<Outgoing>,
    /// Cancelled when its stop begins: its input is closed, and its shim is told.
    pub(crate) closing: CancellationToken,
    /// Held by whoever is about to change its generation or to end it, so that what is on disk stays in step.
    pub(crate) change: tokio::sync::Mutex<()>,
    stage: watch::Sender<Stage>,
    facts: Mutex<Facts>,
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
    complaints: Tail,
}

impl Engine {
    /// Makes the session of an engine that is about to be started; the receiver is for the writer of its input.
    #[must_use]
    pub(crate) fn starting(id: Id, generation: i64, plan: Plan, now: Ms) -> (Arc<Self>, mpsc::Receiver<Outgoing>) {
        let (outgoing, receiver) = mpsc::channel(16);
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
            complaints: Tail::default(),
        };
        let session = Self {
            id,
            engine_name: plan.name,
            spec: plan.spec,
            cwd: plan.cwd,
            owner_id: plan.owner_id,
            outgoing,
            closing: CancellationToken::new(),
            change: tokio::sync::Mutex::new(()),
            stage: watch::Sender::new(Stage::Starting),
            facts: Mutex::new(facts),
        };
        (Arc::new(session), receiver)
    }

    /// Takes the lock. Nothing waits while it is held.
    pub(crate) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of some of its output. What it says while it is being stopped is no use.
    pub(crate) fn heard(&self, event: Event, now: Ms) {
        let mut facts = self.facts();
        if facts.ending.is_some() {
            return;
        }
        facts.doings.heard(&event, now);
        if let Event::Session(id) = event
            && is_printable(&id)
        {
            facts.engine_session_id = Some(id);
        }
    }

    /// Takes note of one line of its output.
    pub(crate) fn said(&self, line: &[u8], now: Ms) {
        let exchange = self.facts().adapter.read(line);
        for event in exchange.events {
            self.heard(event, now);
        }
    }

    /// Takes note that its output has ended. While it lives, nobody can tell what it is doing any more.
    pub(crate) fn fell_mute(&self) {
        self.facts().doings.fell_mute();
    }

    /// Takes note of a line of its standard error.
    pub(crate) fn complained(&self, line: &str) {
        self.facts().complaints.push(line);
    }

    /// Returns the last lines of its standard error.
    #[must_use]
    pub(crate) fn complaints(&self) -> String {
        self.facts().complaints.text()
    }

    /// Marks it as running.
    pub(crate) fn runs(&self, process: Identity, shim: Option<i32>) {
        let mut facts = self.facts();
        (facts.process, facts.shim) = (Some(process), shim);
        if facts.ending.is_none() {
            self.stage.send_replace(Stage::Running);
        }
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
            attached: Some(0),
            containment: Some("subreaper".to_owned()),
            engine_session_id: facts.engine_session_id.clone(),
            ..TrackedSession::bare(self.id.clone())
        }
    }
}

/// Returns whether an engine's own id of its conversation is one that can be shown, kept and put into a command.
fn is_printable(id: &str) -> bool {
    (1..=CONVERSATION_MOST).contains(&id.len()) && !id.chars().any(char::is_control)
}

/// Returns whether a call on behalf of `asked` may know of what belongs to `owner`; one on nobody's behalf may.
#[must_use]
pub(crate) fn is_for(asked: Option<&str>, owner: Option<&str>) -> bool {
    asked.is_none_or(|asked| owner == Some(asked))
}

impl Facts {
    /// Returns what the engine is doing.
    #[must_use]
    pub(crate) fn state(&self, now: Ms, stall_after: Ms) -> EngineState {
        self.doings.state(now, stall_after)
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
