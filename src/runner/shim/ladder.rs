//! The stop ladder as a pure schedule: given what happened and when, which step is due next.
//!
//! Sends nothing and reads no clock.

use crate::runner::shim::wire::StopGraces;
use crate::time::Ms;

/// One rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// SIGTERM for the engine alone: it may shut down its own children.
    TermEngine,
    /// SIGTERM for everything below the shim.
    TermTree,
    /// SIGKILL for everything below the shim, again and again.
    Kill,
}

/// The state of one stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ladder {
    graces: StopGraces,
    began: Ms,
    next: Step,
    due: Ms,
    kill_began: Option<Ms>,
}

/// How often SIGKILL is repeated at first; the pause doubles up to [`KILL_PAUSE_MOST`].
const KILL_PAUSE_LEAST: Ms = 2;
/// How long the pause between two rounds of SIGKILL grows.
const KILL_PAUSE_MOST: Ms = 50;

impl Ladder {
    /// Begins a stop that was asked for: stdin was just closed.
    #[must_use]
    pub(crate) fn asked(graces: StopGraces, now: Ms, engine_lives: bool) -> Self {
        let (next, due) = if engine_lives { (Step::TermEngine, now + graces.stdin) } else { (Step::TermTree, now) };
        Self { graces, began: now, next, due, kill_began: None }
    }

    /// Begins the stop of what an engine that left by itself has left behind.
    #[must_use]
    pub(crate) fn left_behind(graces: StopGraces, now: Ms) -> Self {
        Self { graces, began: now, next: Step::TermTree, due: now + graces.linger, kill_began: None }
    }

    /// Takes note that the engine itself is gone: only its tree is left to be asked.
    pub(crate) fn engine_gone(&mut self, now: Ms) {
        if self.next == Step::TermEngine {
            (self.next, self.due) = (Step::TermTree, now);
        } else if self.next == Step::TermTree {
            self.due = self.due.min(now);
        }
    }

    /// Returns in how many milliseconds the next step is due; 0 when it is.
    #[must_use]
    pub(crate) fn due_in(&self, now: Ms) -> Ms {
        (self.due - now).max(0)
    }

    /// Returns the step that is due, if one is, and moves on to the next.
    pub(crate) fn take(&mut self, now: Ms) -> Option<Step> {
        if now < self.due {
            return None;
        }
        let step = self.next;
        (self.next, self.due) = match step {
            Step::TermEngine => (Step::TermTree, now + self.graces.engine),
            Step::TermTree => (Step::Kill, now + self.graces.tree),
            Step::Kill => {
                let began = *self.kill_began.get_or_insert(now);
                (Step::Kill, now + (now - began).clamp(KILL_PAUSE_LEAST, KILL_PAUSE_MOST))
            }
        };
        Some(step)
    }

    /// Returns when the stop began.
    #[must_use]
    pub(crate) fn began(&self) -> Ms {
        self.began
    }

    /// Returns whether SIGKILL has been tried for as long as it may take.
    #[must_use]
    pub(crate) fn is_stuck(&self, now: Ms) -> bool {
        self.kill_began.is_some_and(|began| now - began >= self.graces.kill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACES: StopGraces = StopGraces { interrupt: 0, stdin: 50, engine: 40, tree: 20, kill: 100, linger: 70 };

    #[test]
    fn each_step_comes_when_its_grace_is_over_and_not_before() {
        let mut ladder = Ladder::asked(GRACES, 1_000, true);
        assert_eq!((ladder.take(1_049), ladder.due_in(1_049)), (None, 1));
        assert_eq!(ladder.take(1_050), Some(Step::TermEngine));
        assert_eq!(ladder.take(1_089), None);
        assert_eq!(ladder.take(1_090), Some(Step::TermTree));
        assert_eq!(ladder.take(1_109), None);
        assert_eq!(ladder.take(1_110), Some(Step::Kill));
        assert_eq!((ladder.take(1_111), ladder.take(1_112)), (None, Some(Step::Kill)));
        assert!(!ladder.is_stuck(1_209) && ladder.is_stuck(1_210));
    }

    #[test]
    fn an_engine_that_left_is_not_waited_for() {
        let mut ladder = Ladder::asked(GRACES, 0, true);
        ladder.engine_gone(10);
        assert_eq!(ladder.take(10), Some(Step::TermTree));
        let mut ladder = Ladder::asked(GRACES, 0, true);
        assert_eq!(ladder.take(50), Some(Step::TermEngine));
        ladder.engine_gone(55);
        assert_eq!(ladder.take(55), Some(Step::TermTree));
    }

    #[test]
    fn what_is_left_behind_may_linger() {
        let mut ladder = Ladder::left_behind(GRACES, 0);
        assert_eq!((ladder.take(69), ladder.take(70)), (None, Some(Step::TermTree)));
    }
}
