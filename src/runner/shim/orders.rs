//! What a runner orders, and what a shim does about it.

use crate::clock::{Clock, SystemClock};
use crate::runner::shim::birth;
use crate::runner::shim::engine::Engine;
use crate::runner::shim::hold::Shim;
use crate::runner::shim::input::Answers;
use crate::runner::shim::waiter::Waiter;
use crate::runner::shim::wire::{NOTE_MOST, News, Note, Once, Order, Spec, StopGraces, Taken};
use crate::time::{Ms, SECOND};

/// How long a runner may take to hear that the engine did not start.
const LAST_WORDS: Ms = 2 * SECOND;

impl Shim {
    /// Does what is ordered, and returns what is to be told about it.
    pub(crate) fn take_order(&mut self, order: Order, now: Ms) -> Vec<News> {
        match order {
            Order::Start(spec) if self.engine.is_none() && self.leave_by.is_none() => {
                return vec![self.start(&spec, now)];
            }
            Order::Leave if self.engine.is_none() => self.leave_by = Some(now),
            Order::Write { seq, text, once, note } => {
                let answer = self.write(seq, text, once, note);
                return told(answer.into_iter().chain(self.pass_on(now)).collect());
            }
            Order::Stop { first, signal, graces } => return told(self.stop(first, signal, graces, now)),
            Order::Keep { note } => self.keep(note),
            Order::Interrupt => {
                if let Some(engine) = &self.engine {
                    engine.keeper.interrupt();
                }
            }
            Order::Hurry => {
                if let Some(engine) = &mut self.engine {
                    engine.keeper.hurry(now);
                }
            }
            Order::Start(_) | Order::Leave => {}
        }
        Vec::new()
    }

    fn start(&mut self, spec: &Spec, now: Ms) -> News {
        // Without it nobody would know when the engine is gone, so it comes first.
        let started = Waiter::new().and_then(|waiter| Ok((waiter, birth::start(&self.own, spec)?)));
        match started {
            Ok((mut waiter, newborn)) => {
                waiter.go();
                let engine = Engine::new(newborn, spec, self.me, SystemClock.boot_id(), now);
                let news = News::Started { engine: engine.keeper.engine(), containment: engine.keeper.containment() };
                (self.engine, self.waiter) = (Some(engine), Some(waiter));
                news
            }
            Err(error) => {
                self.leave_by = Some(now + LAST_WORDS);
                News::NotStarted { why: error.to_string() }
            }
        }
    }

    fn write(&mut self, seq: u64, text: String, once: Option<Once>, note: Option<Note>) -> Option<(u64, Taken)> {
        let Some(engine) = &mut self.engine else { return Some((seq, Taken::Closed)) };
        // What is asked for again changes nothing: its own note came with it the first time.
        let fresh = !engine.input.knows(once.as_ref());
        let answer = engine.input.offer(seq, text, once);
        // In the same step: no connection can end between the two.
        if let Some(note) = note.filter(|_| fresh && answer.is_none()) {
            self.keep(note);
        }
        answer.map(|result| (seq, result))
    }

    fn pass_on(&mut self, now: Ms) -> Answers {
        self.engine.as_mut().map(|engine| engine.input.write(now)).unwrap_or_default()
    }

    fn keep(&mut self, note: Note) {
        let size = note.state.len();
        if size <= NOTE_MOST {
            (self.note, self.note_trouble) = (Some(note), None);
        } else {
            self.note_trouble = Some(format!("a note of {size} bytes is too large to be kept"));
        }
    }

    /// Begins the stop, or makes it faster.
    ///
    /// What must be true: the runner has written down that it wants this end, and why.
    fn stop(&mut self, first: String, signal: bool, graces: Option<StopGraces>, now: Ms) -> Answers {
        let Some(engine) = &mut self.engine else { return Answers::new() };
        let begins = !engine.keeper.is_asked() && engine.keeper.exit().is_none();
        let interrupted = begins && (signal || !first.is_empty());
        let mut answers = engine.input.stop(first);
        answers.extend(engine.input.write(now));
        if begins && signal {
            engine.keeper.interrupt();
        }
        engine.keeper.stop(graces, interrupted, now);
        answers
    }
}

fn told(answers: Answers) -> Vec<News> {
    answers.into_iter().map(|(seq, result)| News::Taken { seq, result }).collect()
}
