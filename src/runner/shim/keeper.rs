//! Keeping one engine: waits for what happens, takes the steps of a stop, and knows when nothing is left.
//!
//! Signals are sent only to processes that the kernel shows below this shim at that moment, each pinned and compared
//! first. The one proof of emptiness is the kernel's own: no child is left to wait for, and everything the engine ever
//! started comes back to this subreaper.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use rustix::process::Signal;

use crate::clock::{Clock, SystemClock};
use crate::protocol::{EngineExit, StopStage};
use crate::runner::process::{self, Facts, Identity};
use crate::runner::shim::ladder::{Ladder, Step};
use crate::runner::shim::wire::{Gone, News, StopGraces};
use crate::time::{Ms, SECOND};

/// What a keeper is woken by.
#[derive(Debug)]
pub(crate) enum Event {
    /// A child of the shim ended: the engine, or something that it had started.
    Exited(i32, EngineExit),
    /// There is no child left.
    Empty,
    /// The runner asks for a stop, or is gone, which today means the same.
    Stop,
}

/// The engine and how far its end has come.
pub(crate) struct Keeper {
    engine: Identity,
    graces: StopGraces,
    exit: Option<EngineExit>,
    ladder: Option<Ladder>,
    asked: bool,
    said_stuck: bool,
    gone: Gone,
    tell: Box<dyn FnMut(&News)>,
}

impl Keeper {
    /// Makes the keeper of an engine that was just started; `tell` brings news to the runner.
    #[must_use]
    pub(crate) fn new(engine: Identity, graces: StopGraces, tell: Box<dyn FnMut(&News)>) -> Self {
        let gone = Gone::default();
        Self { engine, graces, exit: None, ladder: None, asked: false, said_stuck: false, gone, tell }
    }

    /// Runs until nothing of the engine is left, and returns how it went.
    pub(crate) fn run(mut self, events: &Receiver<Event>) -> Gone {
        loop {
            match self.next(events) {
                Some(Event::Exited(pid, exit)) if pid == self.engine.pid && self.exit.is_none() => self.exited(exit),
                Some(Event::Stop) if !self.asked => self.stop(),
                Some(Event::Empty) => break,
                Some(Event::Exited(..) | Event::Stop) | None => {}
            }
            self.climb();
        }
        self.record("empty");
        self.gone.exit = self.exit;
        self.gone
    }

    fn next(&self, events: &Receiver<Event>) -> Option<Event> {
        let Some(ladder) = &self.ladder else { return events.recv().ok() };
        let wait = u64::try_from(ladder.due_in(awake())).unwrap_or(0);
        // Out of time is no event; what is due is then taken.
        events.recv_timeout(Duration::from_millis(wait)).ok()
    }

    fn stop(&mut self) {
        self.asked = true;
        self.ladder = Some(Ladder::asked(self.graces, awake(), self.exit.is_none()));
        self.record("stdin_closed");
    }

    fn exited(&mut self, exit: EngineExit) {
        (self.tell)(&News::EngineExited { exit: exit.clone() });
        self.exit = Some(exit);
        if let Some(ladder) = &mut self.ladder {
            ladder.engine_gone(awake());
        } else {
            self.gone.left_behind = described(&self.tree());
            self.ladder = Some(Ladder::left_behind(self.graces, awake()));
        }
    }

    fn climb(&mut self) {
        let Some(step) = self.ladder.as_mut().and_then(|ladder| ladder.take(awake())) else { return };
        let (targets, stage) = match step {
            // It is this shim's own child, and not waited for yet, so its number is still its own.
            Step::TermEngine => (process::facts(self.engine.pid).into_iter().collect(), "sigterm_engine"),
            Step::TermTree => (self.tree(), "sigterm_tree"),
            Step::Kill => (self.tree(), "sigkill"),
        };
        let targets: Vec<Facts> = targets;
        if !targets.is_empty() && self.gone.stages.last().is_none_or(|last| last.stage != stage) {
            self.record(stage);
        }
        for target in &targets {
            send(target, step);
        }
        if step == Step::Kill {
            self.complain();
        }
    }

    fn complain(&mut self) {
        if !self.said_stuck && self.ladder.as_ref().is_some_and(|ladder| ladder.is_stuck(awake())) {
            self.said_stuck = true;
            let left = described(&self.tree());
            (self.tell)(&News::Stuck { left });
        }
    }

    fn record(&mut self, stage: &str) {
        let began = self.ladder.as_ref().map_or_else(awake, Ladder::began);
        self.gone.stages.push(StopStage { stage: stage.to_owned(), at_ms: awake() - began });
    }

    fn tree(&self) -> Vec<Facts> {
        process::descendants(me())
    }
}

/// Signals one process of the tree, if its parent is still the one it was found under, or this subreaper by now.
fn send(target: &Facts, step: Step) {
    let ours = |now: &Facts| now.parent == target.parent || now.parent == me();
    if step == Step::Kill {
        process::signal(target.identity, Signal::KILL, ours);
    } else if process::signal(target.identity, Signal::TERM, ours) {
        // A stopped process takes no SIGTERM before it goes on.
        process::signal(target.identity, Signal::CONT, ours);
    }
}

fn described(tree: &[Facts]) -> Vec<String> {
    tree.iter().map(|it| format!("{} (process {}, state {})", it.name, it.identity.pid, it.state)).collect()
}

fn awake() -> Ms {
    SystemClock.awake()
}

fn me() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// How long a shim waits for its runner's first words.
pub(crate) const FIRST_WORDS: Ms = 10 * SECOND;
