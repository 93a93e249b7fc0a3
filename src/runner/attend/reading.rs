//! The output of an engine, read from its shim's log: cut into lines, each taken in at the time at which it came.

use crate::runner::attend::Attendant;
use crate::runner::engine::is_printable;
use crate::runner::engines::{Event, Exchange};
use crate::runner::output::{self, Line, Piece};
use crate::runner::shim::wire::{Gone, OUT, Order};
use crate::runner::{files, intents};
use crate::time::Ms;

/// How many bytes of output are read at once.
const CHUNK: usize = 256 * 1024;

impl Attendant {
    pub(super) fn is_behind(&self) -> bool {
        self.cutter.next() < self.head
    }

    /// Reads some of the output that is there.
    pub(super) async fn feed(&mut self) {
        let (out, at) = (self.folder.join(OUT), self.cutter.next());
        match files::aside(move || output::read(&out, at, CHUNK)).await {
            Ok(Piece::Bytes(bytes)) => {
                let lines = self.cutter.push(&bytes);
                let mut telling = false;
                for line in lines {
                    telling |= self.read(line).await;
                }
                if self.cutter.has_rest() {
                    let at = self.time_of(self.cutter.next());
                    self.session.heard(&[Event::Output { task: None }], at);
                }
                self.fall_mute();
                if telling { self.keep_note().await } else { self.note_soon() }
            }
            Ok(Piece::Gap(to)) => {
                self.cutter.skip(to);
                let now = self.now();
                self.session.facts().doings.missed(now);
            }
            Ok(Piece::Nothing) => {
                tracing::error!(session_id = %self.session.id, "output of an engine was removed before it was read");
                self.lose(at);
            }
            Err(error) => {
                tracing::error!(session_id = %self.session.id, %error, "the output of an engine cannot be read");
                self.lose(at);
            }
        }
        self.session.read_up_to_now(self.is_behind());
    }

    /// Takes note that what came behind `at` cannot be read, so nobody knows what it said. It is asked again when there
    /// is more.
    fn lose(&mut self, at: u64) {
        let now = self.now();
        self.session.facts().doings.missed(now);
        self.head = at;
        self.note_soon();
    }

    /// Reads one line, and returns whether it changes what has to be remembered.
    async fn read(&mut self, line: Line) -> bool {
        let at = self.time_of(line.end);
        let exchange = match &line.text {
            Some(text) => self.session.read(text),
            None => Exchange { events: vec![Event::Output { task: None }], write: Vec::new() },
        };
        for event in &exchange.events {
            if let Event::Session(id) = event {
                self.remember(id).await;
            }
        }
        self.session.heard_line(&exchange.events, at, line.end);
        self.part(&exchange.events).await;
        let quiet = |event: &Event| matches!(event, Event::Output { .. } | Event::Status | Event::Session(_));
        let telling = !exchange.events.iter().all(quiet) || !exchange.write.is_empty();
        self.reply(line.end, exchange.write).await;
        telling
    }

    /// Takes in the engine's own id of its conversation: on disk first, and only when it is another one.
    ///
    /// One that another owner's engine holds, or held when it ended, is not believed: else an engine could lock its real
    /// owner out of the conversation, and be started with it. Nothing is remembered of it.
    async fn remember(&self, id: &str) {
        let held = self.session.facts().engine_session_id.clone();
        if held.as_deref() == Some(id) || !is_printable(id) {
            return;
        }
        if self.runner.known().is_anothers(id, self.session.owner_id.as_deref()) {
            self.disbelieve(id);
            return;
        }
        let (folder, writing) = (self.folder.clone(), Some(id.to_owned()));
        match files::aside(move || intents::write_conversation(&folder, writing.as_deref())).await {
            Ok(()) if self.claim(id) => {}
            Ok(()) => {
                // Another owner's engine came first while it was written.
                self.disbelieve(id);
                let folder = self.folder.clone();
                let taken_back = files::aside(move || intents::write_conversation(&folder, held.as_deref())).await;
                if let Err(error) = taken_back {
                    tracing::error!(session_id = %self.session.id, %error, "an engine's claim cannot be taken back");
                }
            }
            Err(error) => {
                tracing::error!(session_id = %self.session.id, %error, "an engine's conversation cannot be written down");
                self.session.facts().trouble = Some(format!("its conversation cannot be written down: {error}"));
            }
        }
    }

    /// Makes the conversation the engine's own, unless it is another owner's; under the lock of all engines, so that of two
    /// that say the same one comes first.
    fn claim(&self, id: &str) -> bool {
        let known = self.runner.known();
        if known.is_anothers(id, self.session.owner_id.as_deref()) {
            return false;
        }
        let mut facts = self.session.facts();
        facts.engine_session_id = Some(id.to_owned());
        facts.disbelieved = None;
        true
    }

    /// Takes note, for people, that the engine says a conversation that is another owner's.
    fn disbelieve(&self, id: &str) {
        let mut facts = self.session.facts();
        if facts.disbelieved.is_none() {
            tracing::warn!(session_id = %self.session.id, conversation = id, "an engine claims another owner's conversation");
        }
        facts.disbelieved =
            Some(format!("it claims the conversation {id:?}, which is another owner's, and is not believed"));
    }

    /// Follows what the engine does while it is being stopped; once it is done, nobody waits for it any longer.
    async fn part(&mut self, events: &[Event]) {
        let now = self.now();
        let Some(doings) = &mut self.parting else { return };
        events.iter().for_each(|event| doings.heard(event, now));
        if !doings.in_turn() && !doings.has_tasks() {
            self.parting = None;
            self.send(&Order::Hurry).await;
        }
    }

    /// Reads the rest of an engine's output that is gone.
    pub(crate) async fn hear_out(&mut self, gone: &Gone) {
        self.grown(gone.head, 0, 0);
        while self.is_behind() {
            self.feed().await;
        }
        if let Some(line) = self.cutter.last() {
            self.read(line).await;
        }
    }

    /// Returns when the bytes before `end` came: now, unless they were there before this life of the runner.
    fn time_of(&self, end: u64) -> Ms {
        let now = self.now();
        let earlier = self.times.0.at(end).filter(|_| end <= self.times.1);
        earlier.map_or(now, |at| at.min(now))
    }
}
