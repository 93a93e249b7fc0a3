//! Talking with one engine's shim, from the moment it runs until nothing of the engine is left.
//!
//! One task per engine, and the only one that speaks with its shim: so what the engine said and what it was told come in
//! one order, and the note that the shim keeps is always one that was true at a moment. The output itself is read from
//! the shim's log, and only what the shim says about it comes over the socket.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::clock;
use crate::protocol::EngineExit;
use crate::runner::doings::Doings;
use crate::runner::engine::{Ending, Engine, Errand, saved};
use crate::runner::engines::{Event, Exchange, Interrupt, Opening};
use crate::runner::intents::EndIntent;
use crate::runner::link::{self, Link};
use crate::runner::output::{self, Cutter, Line, Piece, Times};
use crate::runner::shim::wire::{EXIT, Gone, Hello, News, Note, OUT, Once, Order, Taken};
use crate::runner::{Runner, files, intents};
use crate::session::Id;
use crate::time::Ms;

/// How many bytes of output are read at once.
const CHUNK: usize = 256 * 1024;
/// How long what only keeps the note fresh may wait.
const NOTE_WITHIN: Duration = Duration::from_secs(1);
/// How long a shim that does not answer is left alone, at first and at most.
const CALL_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

/// What is waited for, by the number of the text.
struct Waiting {
    order: Order,
    /// What it means once the engine has it.
    events: Vec<Event>,
    told: Told,
}

/// Why nobody speaks with a shim any more.
pub(crate) enum Parting {
    /// Nothing of the engine is left.
    Gone(Gone),
    /// The shim itself died, and left no proof.
    ShimDied,
    /// This runner goes; shim and engine stay.
    RunnerLeft,
}

/// Whom to tell what became of a text.
enum Told {
    Nobody,
    Sender(oneshot::Sender<Taken>),
    Asker(oneshot::Sender<Option<Taken>>),
}

/// Whoever talks with the shim of one engine.
pub(crate) struct Attendant {
    runner: Runner,
    session: Arc<Engine>,
    folder: PathBuf,
    link: Option<Link>,
    cutter: Cutter,
    head: u64,
    /// When the output came that an earlier life of the runner may have read, and where that ends.
    times: (Times, u64),
    waiting: BTreeMap<u64, Waiting>,
    next_seq: u64,
    stop_told: bool,
    /// The engine has closed its output.
    output_ended: bool,
    /// The shim was never met by this life of the runner: with what its engine's conversation was opened, and the stop
    /// that an earlier life had written down.
    opening: Option<(Opening, Option<EndIntent>)>,
    /// What the engine does since its stop began; none once nothing is waited for any more.
    parting: Option<Doings>,
    /// When the note is to be brought up to date.
    note_due: Option<Instant>,
}

impl Attendant {
    /// Makes the one for a session whose shim is not yet spoken with.
    #[must_use]
    pub(crate) fn new(runner: Runner, session: Arc<Engine>) -> Self {
        let folder = runner.dir().session(&session.id);
        // Numbers of an earlier life may still come back, and mean nothing here.
        let next_seq = u64::try_from(runner.epoch()).unwrap_or(0) << 32;
        Self {
            runner,
            session,
            folder,
            link: None,
            cutter: Cutter::at(0),
            head: 0,
            times: (Times::default(), 0),
            waiting: BTreeMap::new(),
            next_seq,
            stop_told: false,
            output_ended: false,
            opening: None,
            parting: None,
            note_due: None,
        }
    }

    /// Takes over the connection to a shim whose engine was started just now, and greets the engine.
    pub(crate) async fn begin(&mut self, link: Link, opening: &Opening) {
        self.link = Some(link);
        self.greet(opening).await;
        self.keep_note().await;
    }

    /// Takes up an engine that an earlier life of the runner started: what that knew, then what came since, each line at
    /// the time at which it came.
    pub(crate) async fn resume(&mut self, link: Link, hello: Box<Hello>, opening: &Opening) {
        self.link = Some(link);
        let known = hello.note.as_ref().filter(|note| self.session.take_up(&note.state));
        let from = known.map_or(hello.base, |note| note.offset);
        self.cutter = Cutter::at(from);
        let (out, fresh) = (self.folder.join(OUT), known.is_none());
        let read = files::aside(move || Ok(Times::read(&out, from))).await;
        self.times = (read.unwrap_or_default(), hello.head);
        if fresh {
            self.greet(opening).await;
        }
        self.greeted(&hello);
        if hello.engine.is_none() {
            // It was never told what to start, and nobody tells it any more.
            self.send(&Order::Leave).await;
        }
        self.catch_up().await;
    }

    /// Reads all output that is there; only then what the engine does is known again.
    async fn catch_up(&mut self) {
        while self.is_behind() {
            self.feed().await;
        }
        self.session.facts().unread = false;
        self.keep_note().await;
    }

    /// Has an engine taken up, as [`Attendant::resume`] does, once its shim answers.
    pub(crate) fn will_resume(&mut self, opening: Opening, end: Option<EndIntent>) {
        self.opening = Some((opening, end));
    }

    /// Speaks with the shim until nothing of the engine is left, or until this runner goes.
    pub(crate) async fn attend(mut self, errands: mpsc::Receiver<Errand>) -> Parting {
        let parted = self.runner.shared.parted.clone();
        tokio::select! {
            gone = self.converse(errands) => gone.map_or(Parting::ShimDied, Parting::Gone),
            () = parted.cancelled() => Parting::RunnerLeft,
        }
    }

    /// Speaks with the shim until nothing of the engine is left; none when the shim itself died first.
    async fn converse(&mut self, mut errands: mpsc::Receiver<Errand>) -> Option<Gone> {
        let session = Arc::clone(&self.session);
        loop {
            let (due, behind, stop_told) = (self.note_due, self.is_behind(), self.stop_told);
            let Some(link) = &mut self.link else {
                match self.call_again().await {
                    Ok(()) => continue,
                    Err(gone) => return gone,
                }
            };
            tokio::select! {
                biased;
                () = session.closing.cancelled(), if !stop_told => self.tell_stop().await,
                news = link.news() => match news {
                    Some(News::Gone(gone)) => {
                        self.hear_out(&gone).await;
                        return Some(gone);
                    }
                    Some(news) => self.hear(news),
                    None => self.link = None,
                },
                Some(errand) = errands.recv() => self.run(errand).await,
                () = std::future::ready(()), if behind => self.feed().await,
                () = until(due), if due.is_some() => self.keep_note().await,
            }
        }
    }

    fn hear(&mut self, news: News) {
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
    fn greeted(&mut self, hello: &Hello) {
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

    fn grown(&mut self, head: u64, errors: u64, errors_at: Ms) {
        self.head = self.head.max(head);
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
    fn fall_mute(&mut self) {
        if self.output_ended && !self.is_behind() {
            self.session.fell_mute();
            self.note_soon();
        }
    }

    fn taken(&mut self, seq: u64, result: Taken) {
        let Some(waiting) = self.waiting.remove(&seq) else { return };
        let done = matches!(result, Taken::Written | Taken::Again);
        if done {
            // Before anything that the engine answers is read: it comes later on the same connection.
            self.session.heard(&waiting.events, self.now());
        }
        match waiting.told {
            Told::Nobody => {}
            // Who asked may have gone.
            Told::Sender(told) => drop(told.send(result)),
            Told::Asker(told) => drop(told.send(Some(result))),
        }
        self.note_soon();
    }

    async fn run(&mut self, errand: Errand) {
        match errand {
            Errand::Message { text, id, told } => {
                let exchange = self.session.facts().adapter.message(&text);
                let once = Once::Message { id: id.unwrap_or_default() };
                self.write(exchange, Some(once), Told::Sender(told)).await;
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
    async fn greet(&mut self, opening: &Opening) {
        let exchange = self.session.facts().adapter.greet(opening);
        self.session.heard(&exchange.events, self.now());
        self.reply(0, exchange.write).await;
    }

    async fn reply(&mut self, at: u64, texts: Vec<String>) {
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

    async fn send(&mut self, order: &Order) {
        if let Some(link) = &mut self.link
            && link.send(order).await.is_err()
        {
            self.link = None;
        }
    }

    /// Reads some of the output that is there.
    async fn feed(&mut self) {
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
        self.session.heard(&exchange.events, at);
        self.part(&exchange.events).await;
        let quiet = |event: &Event| matches!(event, Event::Output { .. } | Event::Status | Event::Session(_));
        let telling = !exchange.events.iter().all(quiet) || !exchange.write.is_empty();
        self.reply(line.end, exchange.write).await;
        telling
    }

    /// Takes in the engine's own id of its conversation: on disk first, and only when it is another one.
    async fn remember(&self, id: &str) {
        let known = self.session.facts().engine_session_id.as_deref() == Some(id);
        if known || !crate::runner::engine::is_printable(id) {
            return;
        }
        let (folder, writing) = (self.folder.clone(), id.to_owned());
        match files::aside(move || intents::write_conversation(&folder, &writing)).await {
            Ok(()) => self.session.facts().engine_session_id = Some(id.to_owned()),
            Err(error) => {
                tracing::error!(session_id = %self.session.id, %error, "an engine's conversation cannot be written down");
                self.session.facts().trouble = Some(format!("its conversation cannot be written down: {error}"));
            }
        }
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

    /// Tells the shim to stop the engine.
    ///
    /// What must be true: the engine was marked as ending, by right, by whoever cancelled `closing`.
    async fn tell_stop(&mut self) {
        self.stop_told = true;
        let (first, signal, doings) = {
            let facts = self.session.facts();
            (facts.farewell.0.clone(), facts.farewell.1, facts.doings.clone())
        };
        self.parting = (!first.is_empty() || signal).then_some(doings);
        self.send(&Order::Stop { first, signal, graces: None }).await;
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

    /// Finds the shim again that does not answer any more; fails with what it left when it is gone.
    ///
    /// Only a lock that is free says that it is gone. One that holds its lock and does not answer is called again, for
    /// ever if need be; until it answers, nobody knows what its engine does.
    async fn call_again(&mut self) -> Result<(), Option<Gone>> {
        let mut pause = CALL_AGAIN.0;
        self.session.facts().unread = true;
        loop {
            let folder = self.folder.clone();
            if files::aside(move || Ok(link::vacant(&folder).is_some())).await.unwrap_or(false) {
                let exit = self.folder.join(EXIT);
                let gone: Option<Gone> = files::aside(move || files::read_json(&exit)).await.ok().flatten();
                if let Some(gone) = &gone {
                    self.hear_out(gone).await;
                }
                return Err(gone);
            }
            match Link::find(&self.folder).await {
                Ok((link, hello)) => {
                    match self.opening.take() {
                        Some((opening, end)) => {
                            self.session.known_to_run(&hello);
                            self.runner.go_on_stopping(&self.session, Some(&hello), end.as_ref()).await;
                            self.resume(link, hello, &opening).await;
                        }
                        None => {
                            self.link = Some(link);
                            self.greeted(&hello);
                            self.say_again().await;
                            self.catch_up().await;
                        }
                    }
                    return Ok(());
                }
                Err(error) => self.unanswered(&error),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(CALL_AGAIN.1);
        }
    }

    fn unanswered(&self, error: &std::io::Error) {
        let mut facts = self.session.facts();
        if facts.trouble.is_none() {
            tracing::warn!(session_id = %self.session.id, %error, "the shim of an engine does not answer");
        }
        facts.trouble = Some(format!("its shim does not answer: {error}"));
        facts.unread = true;
    }

    /// Says again what may have been lost with the connection and cannot be written twice.
    async fn say_again(&mut self) {
        self.stop_told = false;
        let lost = |waiting: &Waiting| !matches!(waiting.order, Order::Write { once: Some(_), .. });
        self.waiting.retain(|_, waiting| !lost(waiting));
        let orders: Vec<Order> = self.waiting.values().map(|waiting| waiting.order.clone()).collect();
        for order in &orders {
            self.send(order).await;
        }
    }

    fn is_behind(&self) -> bool {
        self.cutter.next() < self.head
    }

    fn note_soon(&mut self) {
        self.note_due.get_or_insert_with(|| clock::timer() + NOTE_WITHIN);
    }

    async fn keep_note(&mut self) {
        self.note_due = None;
        let note = Note { offset: self.cutter.done(), state: self.session.saved() };
        self.send(&Order::Keep { note }).await;
    }

    fn now(&self) -> Ms {
        self.runner.settings().clock.awake()
    }

    /// Returns when the bytes before `end` came: now, unless they were there before this life of the runner.
    fn time_of(&self, end: u64) -> Ms {
        let now = self.now();
        let earlier = self.times.0.at(end).filter(|_| end <= self.times.1);
        earlier.map_or(now, |at| at.min(now))
    }
}

async fn until(due: Option<Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due).await;
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
