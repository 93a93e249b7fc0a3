//! The stop ladder as a pure schedule: given what happened and when, which step is due next.
//!
//! Sends nothing and reads no clock.

use crate::runner::shim::wire::StopGraces;
use crate::time::{MINUTE, Ms, SECOND};

/// One rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Close the engine's input.
    CloseInput,
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
    /// Since when the next step is waited for.
    since: Ms,
    due: Ms,
    engine_lives: bool,
    kill_began: Option<Ms>,
}

/// How often SIGKILL is repeated at first; the pause doubles up to [`KILL_PAUSE_MOST`].
const KILL_PAUSE_LEAST: Ms = 2;
/// How long the pause between two rounds of SIGKILL grows.
const KILL_PAUSE_MOST: Ms = 50;
/// After this long it is hardly a matter of moments any more.
const KILL_BRISKLY: Ms = MINUTE;
/// The pause from then on.
const KILL_PAUSE_LATE: Ms = 5 * SECOND;

impl Ladder {
    /// Begins a stop that was asked for; `interrupted` says whether the engine was just asked to end its turn.
    #[must_use]
    pub(crate) fn asked(graces: StopGraces, now: Ms, interrupted: bool) -> Self {
        let due = if interrupted { now.saturating_add(graces.interrupt) } else { now };
        Self { graces, began: now, next: Step::CloseInput, since: now, due, engine_lives: true, kill_began: None }
    }

    /// Begins the stop of what an engine that left by itself has left behind.
    #[must_use]
    pub(crate) fn left_behind(graces: StopGraces, now: Ms) -> Self {
        let due = now.saturating_add(graces.linger);
        Self { graces, began: now, next: Step::TermTree, since: now, due, engine_lives: false, kill_began: None }
    }

    /// Takes note that the engine itself is gone: only its tree is left to be asked.
    pub(crate) fn engine_gone(&mut self, now: Ms) {
        self.engine_lives = false;
        match self.next {
            Step::CloseInput | Step::TermEngine => (self.next, self.since, self.due) = (Step::TermTree, now, now),
            Step::TermTree => self.due = self.due.min(now),
            Step::Kill => {}
        }
    }

    /// Stops waiting for the end of the turn.
    pub(crate) fn hurry(&mut self, now: Ms) {
        if self.next == Step::CloseInput {
            self.due = self.due.min(now);
        }
    }

    /// Takes the shorter of each grace from here on; what was taken stays taken.
    pub(crate) fn shorten(&mut self, graces: StopGraces) {
        self.graces = self.graces.shortest(graces);
        let grace = match self.next {
            Step::CloseInput => self.graces.interrupt,
            Step::TermEngine => self.graces.stdin,
            Step::TermTree if self.engine_lives => self.graces.engine,
            Step::TermTree => return,
            Step::Kill if self.kill_began.is_none() => self.graces.tree,
            Step::Kill => return,
        };
        self.due = self.due.min(self.since.saturating_add(grace));
    }

    /// What an engine left behind lingers no longer: now a stop was asked for.
    pub(crate) fn linger_no_longer(&mut self, now: Ms) {
        if self.next == Step::TermTree {
            self.due = self.due.min(now);
        }
    }

    /// Returns in how many milliseconds the next step is due; 0 when it is.
    #[must_use]
    pub(crate) fn due_in(&self, now: Ms) -> Ms {
        self.due.saturating_sub(now).max(0)
    }

    /// Returns the step that is due, if one is, and moves on to the next.
    pub(crate) fn take(&mut self, now: Ms) -> Option<Step> {
        if now < self.due {
            return None;
        }
        let step = self.next;
        let (next, wait) = match step {
            Step::CloseInput => (Step::TermEngine, self.graces.stdin),
            Step::TermEngine => (Step::TermTree, self.graces.engine),
            Step::TermTree => (Step::Kill, self.graces.tree),
            Step::Kill => (Step::Kill, pause(now - *self.kill_began.get_or_insert(now))),
        };
        (self.next, self.since, self.due) = (next, now, now.saturating_add(wait));
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

/// Returns the pause between two rounds of SIGKILL, the first of which was so long ago.
fn pause(killing_for: Ms) -> Ms {
    if killing_for >= KILL_BRISKLY { KILL_PAUSE_LATE } else { killing_for.clamp(KILL_PAUSE_LEAST, KILL_PAUSE_MOST) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACES: StopGraces = StopGraces { interrupt: 30, stdin: 50, engine: 40, tree: 20, kill: 100, linger: 70 };

    #[test]
    fn each_step_comes_when_its_grace_is_over_and_not_before() {
        let mut ladder = Ladder::asked(GRACES, 970, true);
        assert_eq!((ladder.take(999), ladder.take(1_000)), (None, Some(Step::CloseInput)));
        assert_eq!((ladder.take(1_049), ladder.due_in(1_049)), (None, 1));
        assert_eq!(ladder.take(1_050), Some(Step::TermEngine));
        assert_eq!(ladder.take(1_089), None);
        assert_eq!(ladder.take(1_090), Some(Step::TermTree));
        assert_eq!(ladder.take(1_109), None);
        assert_eq!(ladder.take(1_110), Some(Step::Kill));
        assert_eq!((ladder.take(1_111), ladder.take(1_112)), (None, Some(Step::Kill)));
        assert!(!ladder.is_stuck(1_209) && ladder.is_stuck(1_210));
        ladder.take(1_110 + MINUTE);
        assert_eq!(ladder.due_in(1_110 + MINUTE), 5 * SECOND);
    }

    #[test]
    fn without_a_turn_to_end_the_input_is_closed_at_once() {
        assert_eq!(Ladder::asked(GRACES, 7, false).take(7), Some(Step::CloseInput));
        let mut ladder = Ladder::asked(GRACES, 0, true);
        ladder.hurry(10);
        assert_eq!((ladder.take(9), ladder.take(10)), (None, Some(Step::CloseInput)));
        ladder.hurry(11);
        assert_eq!(ladder.due_in(11), 49, "only the end of the turn can be hurried");
    }

    #[test]
    fn an_engine_that_left_is_not_waited_for() {
        let mut ladder = Ladder::asked(GRACES, 0, true);
        ladder.engine_gone(10);
        assert_eq!(ladder.take(10), Some(Step::TermTree));
        let mut ladder = Ladder::asked(GRACES, 0, false);
        assert_eq!((ladder.take(0), ladder.take(50)), (Some(Step::CloseInput), Some(Step::TermEngine)));
        ladder.engine_gone(55);
        assert_eq!(ladder.take(55), Some(Step::TermTree));
    }

    #[test]
    fn what_is_left_behind_may_linger_until_a_stop_is_asked_for() {
        let mut ladder = Ladder::left_behind(GRACES, 0);
        ladder.shorten(GRACES);
        assert_eq!((ladder.take(69), ladder.take(70)), (None, Some(Step::TermTree)));
        let mut ladder = Ladder::left_behind(GRACES, 0);
        ladder.linger_no_longer(5);
        assert_eq!(ladder.take(5), Some(Step::TermTree));
        ladder.linger_no_longer(6);
        assert_eq!(ladder.due_in(6), 19, "what was asked to leave has its grace");
    }

    #[test]
    fn a_second_stop_shortens_and_never_lengthens() {
        let mut ladder = Ladder::asked(GRACES, 0, false);
        ladder.take(0);
        ladder.shorten(StopGraces { stdin: 500, engine: 1, ..GRACES });
        assert_eq!(ladder.due_in(0), 50);
        ladder.shorten(StopGraces { stdin: 5, ..GRACES });
        assert_eq!((ladder.take(4), ladder.take(5)), (None, Some(Step::TermEngine)));
        assert_eq!(ladder.due_in(5), 1, "each grace is the shortest that was asked for");
    }
}
