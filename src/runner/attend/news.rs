//! What the shim of an engine says: how much output there is, and what became of the engine. What an answer to an order
//! means is in `orders`.

use crate::protocol::EngineExit;
use crate::runner::attend::Attendant;
use crate::runner::engine::{Ending, Engine};
use crate::runner::engines::Event;
use crate::runner::shim::wire::{Hello, News};
use crate::time::Ms;

impl Attendant {
    pub(super) fn hear(&mut self, news: News) {
        match news {
            News::Hello(hello) => self.greeted(&hello),
            News::Grown { head, errors, ended } => {
                self.output_ended |= ended;
                self.grown(head, errors, self.now());
                self.fall_mute();
            }
            News::Taken { seq, result } => self.taken(seq, result),
            News::EngineExited { exit } => left(&self.session, exit),
            News::Stuck { left } => {
                tracing::warn!(session_id = %self.session.id, ?left, "an engine cannot be killed");
                self.session.facts().stuck = left;
            }
            News::Trouble { what } => {
                if let Some(what) = &what {
                    tracing::warn!(session_id = %self.session.id, %what, "the shim of an engine is in trouble");
                }
                self.session.facts().trouble = what;
            }
            News::Started { .. } | News::NotStarted { .. } | News::Gone(_) => {}
        }
    }

    /// Takes in where a shim stands that was met anew.
    pub(super) fn greeted(&mut self, hello: &Hello) {
        {
            let mut facts = self.session.facts();
            facts.stuck.clone_from(&hello.stuck);
            facts.trouble.clone_from(&hello.trouble);
        }
        self.grown(hello.head, hello.errors, hello.errors_at.unwrap_or_else(|| self.now()));
        self.output_ended |= hello.output_ended;
        self.fall_mute();
        if let Some(exit) = hello.exit.clone() {
            left(&self.session, exit);
        }
    }

    pub(super) fn grown(&mut self, head: u64, errors: u64, errors_at: Ms) {
        self.head = self.head.max(head);
        self.session.read_up_to_now(self.is_behind());
        self.session.grew(head);
        let more = {
            let mut facts = self.session.facts();
            let more = errors > facts.errors;
            facts.errors = facts.errors.max(errors);
            more
        };
        if more {
            self.session.heard(&[Event::Output { task: None }], errors_at.min(self.now()));
            self.note_soon();
        }
    }

    /// Once all output of an engine that closed it was read, nobody can tell what it does as long as it lives.
    pub(super) fn fall_mute(&mut self) {
        if self.output_ended && !self.is_behind() {
            self.session.fell_mute();
            self.note_soon();
        }
    }
}

/// Takes note that the engine's own process is gone. What it left behind may linger, unless it never got to work.
///
/// What must be true: the shim has waited for that process, so it is gone. Nobody has to be asked about the rest: only
/// what an engine leaves behind that never started is stopped at once, and the shim sees to the other in its own time.
fn left(session: &Engine, exit: EngineExit) {
    let mut facts = session.facts();
    facts.exit = Some(exit);
    let reason = if facts.settled { "exited" } else { "start_failed" };
    let began = session.begin_end(&mut facts, Ending { reason: reason.to_owned(), ..Ending::default() });
    let at_once = began && !facts.settled;
    drop(facts);
    if at_once {
        session.closing.cancel();
    }
}
