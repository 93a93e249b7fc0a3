//! What one engine is doing and since when it has been silent: pure bookkeeping, told the time by its caller.
//!
//! Every age is measured on a clock that stands still while the machine sleeps. Where a line could mean two things, the
//! reading that keeps the engine alive longer is taken.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::protocol::{EngineState, Told};
use crate::runner::engines::Event;
use crate::time::Ms;

/// How many background tasks are told apart; more than these only keep the others fresh.
const TASKS_MOST: usize = 10_000;

/// The doings of one engine. They are saved as they are, since the clock runs on when the runner does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Doings {
    /// It has spoken of a turn, so output outside of one is no work.
    tells_turns: bool,
    /// It has spoken of a turn, a task, a question or a wake-up.
    tells_state: bool,
    /// When the running turn was last heard.
    turn: Option<Ms>,
    /// When each live background task was last heard, by the hash of its id, so that a hostile id costs no memory.
    tasks: BTreeMap<u64, Ms>,
    /// When it asked its open question.
    asked: Option<Ms>,
    /// When it will wake up by itself.
    wake: Option<Ms>,
    /// When something last used it.
    used: Ms,
    /// Its output has ended while it lives, so its state cannot be told any more.
    mute: bool,
    /// A part of its output was lost since it last told of a turn.
    #[serde(default)]
    missed: bool,
}

impl Doings {
    /// Makes the doings of an engine that is started `now`, which is a use.
    #[must_use]
    pub(crate) fn started(now: Ms) -> Self {
        Self {
            tells_turns: false,
            tells_state: false,
            turn: None,
            tasks: BTreeMap::new(),
            asked: None,
            wake: None,
            used: now,
            mute: false,
            missed: false,
        }
    }

    /// Takes note that somebody uses it.
    pub(crate) fn touch(&mut self, now: Ms) {
        self.used = self.used.max(now);
    }

    /// Takes note of a message on its way to it, which answers an open question; returns when that had been asked.
    pub(crate) fn message(&mut self, now: Ms) -> Option<Ms> {
        self.touch(now);
        self.asked.take()
    }

    /// Takes note that the message never reached it, so its question, asked at `asked`, is still open.
    pub(crate) fn not_taken(&mut self, asked: Option<Ms>) {
        self.asked = self.asked.or(asked);
    }

    /// Takes note that its output has ended.
    pub(crate) fn fell_mute(&mut self) {
        self.mute = true;
    }

    /// Returns whether nobody can tell what it does.
    #[must_use]
    pub(crate) fn is_mute(&self) -> bool {
        self.mute
    }

    /// Takes note that a part of its output was never read: what that said nobody knows, until it tells of a turn again.
    pub(crate) fn missed(&mut self, now: Ms) {
        self.missed = true;
        self.touch(now);
    }

    /// Returns whether a turn runs, as far as is known.
    #[must_use]
    pub(crate) fn in_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// Returns whether it will tell when its turn is over, as far as is known.
    #[must_use]
    pub(crate) fn may_tell_turn(&self) -> bool {
        self.tells_turns || self.in_turn()
    }

    /// Returns whether a background task runs, as far as is known.
    #[must_use]
    pub(crate) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Returns for how long the running turn has been silent; none while it waits for a person, as that is no stall.
    #[must_use]
    pub(crate) fn turn_silent(&self, now: Ms) -> Option<Ms> {
        self.turn.filter(|_| self.asked.is_none()).map(|heard| (now - heard).max(0))
    }

    /// Takes note of some of its output.
    pub(crate) fn heard(&mut self, event: &Event, now: Ms) {
        self.learn(event);
        // A turn begins or ends: from here on it is known again. Tasks that ended unseen are kept, to be safe.
        self.missed &= !matches!(event, Event::TurnStarted | Event::TurnEnded);
        match event {
            Event::TurnStarted => {
                self.turn = Some(now);
                self.asked = None;
                // A wake-up that is due is what began this turn.
                self.wake = self.wake.filter(|due| *due > now);
                self.touch(now);
            }
            Event::TurnEnded => {
                self.turn = None;
                self.touch(now);
            }
            Event::BackgroundStarted(id) => {
                self.task_heard(id, now, self.tasks.len() < TASKS_MOST);
                self.touch(now);
            }
            Event::BackgroundEnded(id) => {
                self.tasks.remove(&key(id));
                self.touch(now);
            }
            Event::AwaitingInput => self.asks(now),
            Event::InputReceived => {
                if self.asked.take().is_some() {
                    self.touch(now);
                }
                self.turn_heard(now);
            }
            Event::WakeScheduled(ms) => self.wake = Some(now.saturating_add(*ms)),
            Event::WakeCleared => self.wake = None,
            Event::Output { task } => self.output(task.as_deref(), now),
            Event::Session(_) | Event::Status => {}
        }
    }

    /// Returns what a runner tells about it.
    #[must_use]
    pub(crate) fn state(&self, now: Ms, stall_after: Ms) -> EngineState {
        let ago = |then: Ms| (now - then).max(0);
        let stalled = self.turn_silent(now).is_some_and(|silent| silent >= stall_after);
        let count = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        EngineState {
            generating: self.tell(self.tells_turns, self.turn.is_some()),
            background_tasks: self.tell(self.tells_state, count),
            awaiting_input: self.tell(self.tells_state, self.asked.is_some()),
            stalled: self.tell(self.tells_turns, stalled),
            next_wake_in_ms: self.wake.map(|due| due.saturating_sub(now)),
            idle_ms: Told::Is(ago(self.used)),
            turn_silent_ms: self.turn.map(ago),
            background_silent_ms: self.tasks.values().max().copied().map(ago),
            awaiting_ms: self.asked.map(ago),
            unclear: false,
        }
    }

    /// A fact that the engine cannot tell is not sent; one that it cannot tell any more is unknown.
    fn tell<T>(&self, tells: bool, value: T) -> Told<T> {
        match (self.mute || self.missed, tells) {
            (true, _) => Told::Unknown,
            (false, true) => Told::Is(value),
            (false, false) => Told::Silent,
        }
    }

    fn learn(&mut self, event: &Event) {
        let turn = matches!(event, Event::TurnStarted | Event::TurnEnded);
        let says_nothing = matches!(event, Event::Output { .. } | Event::Session(_) | Event::Status);
        self.tells_turns |= turn;
        self.tells_state |= !says_nothing;
    }

    /// A question that is repeated outside of a turn is neither newer nor a use, or a ticking one would live for ever.
    fn asks(&mut self, now: Ms) {
        if self.turn.is_some() || self.asked.is_none() {
            self.asked = Some(now);
            self.touch(now);
            self.turn_heard(now);
        }
    }

    fn output(&mut self, task: Option<&str>, now: Ms) {
        let known = task.filter(|id| self.tasks.contains_key(&key(id)));
        let works = self.turn.is_some() || !self.tasks.is_empty();
        match known {
            Some(id) => self.task_heard(id, now, false),
            // It may be any of them.
            None => self.tasks.values_mut().for_each(|heard| *heard = now),
        }
        self.turn_heard(now);
        if works || !self.tells_turns {
            self.touch(now);
        }
    }

    fn turn_heard(&mut self, now: Ms) {
        if self.turn.is_some() {
            self.turn = Some(now);
            self.touch(now);
        }
    }

    fn task_heard(&mut self, id: &str, now: Ms, may_add: bool) {
        if may_add || self.tasks.contains_key(&key(id)) {
            self.tasks.insert(key(id), now);
        } else if let Some(heard) = self.tasks.values_mut().next() {
            *heard = now;
        }
    }
}

fn key(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
