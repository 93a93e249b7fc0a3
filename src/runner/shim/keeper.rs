//! Ending one engine: takes the steps of a stop, and knows when nothing is left.
//!
//! Signals are sent only to processes that the kernel shows below this shim at that moment, each pinned and compared
//! first. The one proof of emptiness is the kernel's own: no child is left to wait for, everything the engine ever
//! started comes back to this subreaper, and its control group, where it has one, is empty too.

use rustix::process::Signal;

use crate::protocol::{EngineExit, StopStage};
use crate::runner::process::{self, Facts, Identity};
use crate::runner::shim::cgroup::Leaf;
use crate::runner::shim::ladder::{Ladder, Step};
use crate::runner::shim::wire::{Containment, Gone, StopGraces};
use crate::time::Ms;

/// The engine and how far its end has come.
#[derive(Debug)]
pub(crate) struct Keeper {
    engine: Identity,
    graces: StopGraces,
    leaf: Option<Leaf>,
    exit: Option<EngineExit>,
    ladder: Option<Ladder>,
    asked: bool,
    childless: bool,
    stuck: Vec<String>,
    gone: Gone,
}

/// What is to be done by the one who holds the engine's pipes and speaks with the runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Climbed {
    /// Close the engine's input.
    CloseInput,
    /// Tell that this cannot be killed.
    Stuck(Vec<String>),
    /// Nothing.
    Nothing,
}

impl Keeper {
    /// Makes the keeper of an engine that was just started.
    #[must_use]
    pub(crate) fn new(engine: Identity, graces: StopGraces, leaf: Option<Leaf>) -> Self {
        let containment = if leaf.is_some() { Containment::Cgroup } else { Containment::Subreaper };
        let gone = Gone { containment, ..Gone::default() };
        Self { engine, graces, leaf, exit: None, ladder: None, asked: false, childless: false, stuck: Vec::new(), gone }
    }

    /// Returns the engine.
    #[must_use]
    pub(crate) fn engine(&self) -> Identity {
        self.engine
    }

    /// Returns what keeps the tree together.
    #[must_use]
    pub(crate) fn containment(&self) -> Containment {
        self.gone.containment
    }

    /// Returns how the engine's own process ended, when it did.
    #[must_use]
    pub(crate) fn exit(&self) -> Option<&EngineExit> {
        self.exit.as_ref()
    }

    /// Returns whether a stop was asked for.
    #[must_use]
    pub(crate) fn is_asked(&self) -> bool {
        self.asked
    }

    /// Returns what could not be killed so far.
    #[must_use]
    pub(crate) fn stuck(&self) -> &[String] {
        &self.stuck
    }

    /// Interrupts the engine's own process, and no other.
    ///
    /// What must be true: it is this shim's own child; one that was waited for is gone and gets nothing.
    pub(crate) fn interrupt(&self) {
        process::signal(self.engine, Signal::INT, |now| now.parent == me());
    }

    /// Begins the stop, or makes one that has begun faster; `interrupted` says whether the engine was just asked to end
    /// its turn.
    pub(crate) fn stop(&mut self, graces: Option<StopGraces>, interrupted: bool, now: Ms) {
        let graces = graces.unwrap_or(self.graces);
        match &mut self.ladder {
            Some(ladder) => {
                ladder.shorten(graces);
                if !self.asked {
                    ladder.linger_no_longer(now);
                }
            }
            None => {
                self.ladder = Some(Ladder::asked(graces, now, interrupted));
                if interrupted {
                    self.record("interrupted", now);
                }
            }
        }
        self.asked = true;
    }

    /// Takes note that the turn is over.
    pub(crate) fn hurry(&mut self, now: Ms) {
        if let Some(ladder) = &mut self.ladder {
            ladder.hurry(now);
        }
    }

    /// Takes note that a child ended, and returns whether it was the engine's own process.
    pub(crate) fn exited(&mut self, pid: i32, exit: &EngineExit, now: Ms) -> bool {
        if pid != self.engine.pid || self.exit.is_some() {
            return false;
        }
        self.exit = Some(exit.clone());
        if let Some(ladder) = &mut self.ladder {
            ladder.engine_gone(now);
        } else {
            self.gone.left_behind = described(&tree());
            self.ladder = Some(Ladder::left_behind(self.graces, now));
        }
        true
    }

    /// Takes note that the kernel knows no child any more.
    pub(crate) fn childless(&mut self) {
        self.childless = true;
    }

    /// Returns whether nothing of the engine is left.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.childless && self.leaf.as_ref().is_none_or(Leaf::is_empty)
    }

    /// Returns in how many milliseconds a step is due.
    #[must_use]
    pub(crate) fn due_in(&self, now: Ms) -> Option<Ms> {
        self.ladder.as_ref().map(|ladder| ladder.due_in(now))
    }

    /// Takes the step that is due, if one is.
    pub(crate) fn climb(&mut self, now: Ms) -> Climbed {
        let Some(step) = self.ladder.as_mut().and_then(|ladder| ladder.take(now)) else { return Climbed::Nothing };
        let (targets, stage) = match step {
            Step::CloseInput => {
                self.record("stdin_closed", now);
                return Climbed::CloseInput;
            }
            // It is this shim's own child; if it was waited for meanwhile, there is no such process.
            Step::TermEngine => (self.engine_alone(), "sigterm_engine"),
            Step::TermTree => (tree(), "sigterm_tree"),
            Step::Kill => (tree(), "sigkill"),
        };
        if !targets.is_empty() && self.gone.stages.last().is_none_or(|last| last.stage != stage) {
            self.record(stage, now);
        }
        for target in &targets {
            send(target, step);
        }
        if step != Step::Kill {
            return Climbed::Nothing;
        }
        if let Some(leaf) = &self.leaf {
            leaf.kill();
        }
        self.complain(now)
    }

    fn engine_alone(&self) -> Vec<Facts> {
        process::facts(self.engine.pid).filter(|now| now.identity == self.engine).into_iter().collect()
    }

    fn complain(&mut self, now: Ms) -> Climbed {
        if !self.ladder.as_ref().is_some_and(|ladder| ladder.is_stuck(now)) {
            return Climbed::Nothing;
        }
        let left = described(&tree());
        // Nothing to be seen is not nothing left, and what was told need not be told again.
        if left.is_empty() || left == self.stuck {
            return Climbed::Nothing;
        }
        self.stuck.clone_from(&left);
        Climbed::Stuck(left)
    }

    /// Returns how it all went, and removes the control group.
    ///
    /// What must be true: [`Keeper::is_empty`].
    pub(crate) fn conclude(&mut self, head: u64, now: Ms) -> Gone {
        self.record("empty", now);
        if let Some(leaf) = &self.leaf {
            leaf.remove();
        }
        Gone { exit: self.exit.clone(), head, asked: self.asked, ..self.gone.clone() }
    }

    fn record(&mut self, stage: &str, now: Ms) {
        let began = self.ladder.as_ref().map_or(now, Ladder::began);
        self.gone.stages.push(StopStage { stage: stage.to_owned(), at_ms: now - began });
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

fn tree() -> Vec<Facts> {
    process::descendants(me())
}

fn described(tree: &[Facts]) -> Vec<String> {
    tree.iter().map(|it| format!("{} (process {}, state {})", it.name, it.identity.pid, it.state)).collect()
}

fn me() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}
