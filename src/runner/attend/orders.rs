//! What the shim of an engine is told: texts for the engine and what became of each, its interrupt and its stop, and the
//! note of what is known.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock;
use crate::runner::attend::Attendant;
use crate::runner::engine::{Errand, saved};
use crate::runner::engines::{Event, Exchange, Interrupt, Opening};
use crate::runner::shim::wire::{Note, Once, Order, Taken};
use crate::session::Id;

/// How long what only keeps the note fresh may wait.
const NOTE_WITHIN: Duration = Duration::from_secs(1);

/// What is waited for, by the number of the text.
pub(super) struct Waiting {
    order: Order,
    /// What it means once the engine has it.
    events: Vec<Event>,
    told: Told,
}

/// Whom to tell what became of a text.
enum Told {
    Nobody,
    Sender(oneshot::Sender<Taken>),
    Asker(oneshot::Sender<Option<Taken>>),
}

impl Attendant {
    pub(super) async fn run(&mut self, errand: Errand) {
        match errand {
            Errand::Message { text, id, told } => {
                let id = id.unwrap_or_default();
                let exchange = self.session.facts().message(&text, &id);
                match exchange {
                    Some(exchange) => self.write(exchange, Some(Once::Message { id }), Told::Sender(told)).await,
                    None => self.await_the_first(id, told).await,
                }
            }
            Errand::Clear { told } => {
                let exchange = self.session.facts().adapter.clear();
                match exchange {
                    Some(exchange) => {
                        self.write(exchange, Some(Once::Message { id: Id::new() }), Told::Asker(told)).await
                    }
                    None => drop(told.send(None)),
                }
            }
            Errand::Interrupt { told } => self.interrupt(told).await,
            Errand::Ask => {
                let write = self.session.facts().adapter.ask();
                if !write.is_empty() {
                    self.write(Exchange { events: Vec::new(), write }, None, Told::Nobody).await;
                }
            }
            Errand::Keep { told } => {
                self.keep_note().await;
                let _ = told.send(());
            }
        }
    }

    async fn interrupt(&mut self, told: oneshot::Sender<Taken>) {
        let (how, nothing_runs) = {
            let mut facts = self.session.facts();
            (facts.adapter.interrupt(), facts.doings.may_tell_turn() && !facts.doings.in_turn())
        };
        match how {
            // A signal would end an engine that has nothing to interrupt.
            Interrupt::Signal if nothing_runs => drop(told.send(Taken::Written)),
            Interrupt::Write(write) => {
                self.write(Exchange { events: Vec::new(), write }, None, Told::Sender(told)).await
            }
            Interrupt::Signal => {
                self.send(&Order::Interrupt).await;
                self.keep_note().await;
                let _ = told.send(Taken::Written);
            }
        }
    }

    /// Says what opens the conversation. It is the answer to what comes before the first line, so it is said once.
    pub(super) async fn greet(&mut self, opening: &Opening) {
        let exchange = self.session.facts().adapter.greet(opening);
        self.session.heard(&exchange.events, self.now());
        self.reply(0, exchange.write).await;
    }

    /// Tells the shim to stop the engine.
    ///
    /// What must be true: the engine was marked as ending, by right, by whoever cancelled `closing`.
    pub(super) async fn tell_stop(&mut self) {
        self.stop_told = true;
        let (first, signal, doings) = {
            let facts = self.session.facts();
            (facts.farewell.0.clone(), facts.farewell.1, facts.doings.clone())
        };
        self.parting = (!first.is_empty() || signal).then_some(doings);
        self.send(&Order::Stop { first, signal, graces: None }).await;
    }

    pub(super) async fn reply(&mut self, at: u64, texts: Vec<String>) {
        for (n, text) in (0_u32..).zip(texts) {
            let exchange = Exchange { events: Vec::new(), write: vec![text] };
            self.write_with(exchange, Some(Once::Reply { at, n }), None, Told::Nobody).await;
        }
    }

    /// Writes to the engine, together with a note that already tells what that means.
    async fn write(&mut self, exchange: Exchange, once: Option<Once>, told: Told) {
        let note = {
            let facts = self.session.facts();
            let (mut after, now) = (facts.doings.clone(), self.now());
            exchange.events.iter().for_each(|event| after.heard(event, now));
            Note { offset: self.cutter.done(), state: saved(&facts, after) }
        };
        self.write_with(exchange, once, Some(note), told).await;
    }

    async fn write_with(&mut self, exchange: Exchange, once: Option<Once>, note: Option<Note>, told: Told) {
        let (seq, events, text) = (self.next_seq, exchange.events, exchange.write.concat());
        self.next_seq += 1;
        let order = Order::Write { seq, text: text.clone(), once, note };
        self.waiting.insert(seq, Waiting { order: order.clone(), events, told });
        if text.is_empty() {
            // There is nothing that anybody could fail to take.
            return self.taken(seq, Taken::Written);
        }
        self.send(&order).await;
    }

    pub(super) async fn send(&mut self, order: &Order) {
        if let Some(link) = &mut self.link
            && link.send(order).await.is_err()
        {
            self.link = None;
        }
    }

    /// Answers for a message that came before: once the first one is taken, as far as that is still open.
    async fn await_the_first(&mut self, id: Id, told: oneshot::Sender<Taken>) {
        let first = self.waiting.values().find_map(|waiting| match &waiting.order {
            Order::Write { text, once: Some(Once::Message { id: known }), .. } if *known == id => Some(text.clone()),
            Order::Write { .. }
            | Order::Start(_)
            | Order::Keep { .. }
            | Order::Interrupt
            | Order::Stop { .. }
            | Order::Hurry
            | Order::Leave => None,
        });
        match first {
            Some(text) => {
                let same = Exchange { events: Vec::new(), write: vec![text] };
                self.write_with(same, Some(Once::Message { id }), None, Told::Sender(told)).await;
            }
            None => drop(told.send(Taken::Again)),
        }
    }

    pub(super) fn taken(&mut self, seq: u64, result: Taken) {
        let Some(waiting) = self.waiting.remove(&seq) else { return };
        let done = matches!(result, Taken::Written | Taken::Again);
        if done {
            // Before anything that the engine answers is read: it comes later on the same connection.
            self.session.heard(&waiting.events, self.now());
        } else if let Order::Write { once: Some(Once::Message { id }), .. } = &waiting.order {
            self.session.facts().messages.retain(|known| known != id);
        }
        match waiting.told {
            Told::Nobody => {}
            // Who asked may have gone.
            Told::Sender(told) => drop(told.send(result)),
            Told::Asker(told) => drop(told.send(Some(result))),
        }
        self.note_soon();
    }

    /// Says again what may have been lost with the connection and cannot be written twice.
    pub(super) async fn say_again(&mut self) {
        self.stop_told = false;
        let lost = |waiting: &Waiting| !matches!(waiting.order, Order::Write { once: Some(_), .. });
        self.waiting.retain(|_, waiting| !lost(waiting));
        let orders: Vec<Order> = self.waiting.values().map(|waiting| waiting.order.clone()).collect();
        for order in &orders {
            self.send(order).await;
        }
    }

    pub(super) fn note_soon(&mut self) {
        self.note_due.get_or_insert_with(|| clock::timer() + NOTE_WITHIN);
    }

    pub(super) async fn keep_note(&mut self) {
        self.note_due = None;
        let note = Note { offset: self.cutter.done(), state: self.session.saved() };
        self.send(&Order::Keep { note }).await;
    }
}
