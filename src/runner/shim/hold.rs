//! The shim's one loop: waits until something can be done, and does what can be done without waiting.
//!
//! One thread, for the kernel ties the engine's life to it. Nothing here blocks on the engine or on a runner, and what
//! fails is tried again: as long as there is an engine, there is no error that ends the loop.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::clock::{Clock, SystemClock};
use crate::runner::process::Identity;
use crate::runner::shim::caller::Caller;
use crate::runner::shim::door::Door;
use crate::runner::shim::engine::{Engine, myself};
use crate::runner::shim::input::Answers;
use crate::runner::shim::own::Own;
use crate::runner::shim::pages::Pages;
use crate::runner::shim::waiter::{Event, Waiter};
use crate::runner::shim::wire::{Containment, Hello, News, Note, Order, SOCKET, VERSION};
use crate::time::{Ms, SECOND};

/// How long a shim waits for the order to start its engine.
const FIRST_WORDS: Ms = 10 * SECOND;
/// How often it looks whether its socket is still there, and whether there is memory to give back.
const LOOK: Ms = 5 * SECOND;
/// How long a runner may take to hear the last words.
const LAST_WORDS: Ms = 2 * SECOND;
/// How much is read at once.
const CHUNK: usize = 64 * 1024;
/// How long it rests after a fault of its own.
const REST: Duration = Duration::from_secs(1);

/// The shim of one session.
#[derive(Debug)]
pub(crate) struct Shim {
    /// This program.
    pub(crate) own: Own,
    /// Who it is.
    pub(crate) me: Identity,
    /// Its engine, once there is one.
    pub(crate) engine: Option<Engine>,
    /// What takes in its children, from when there may be some.
    pub(crate) waiter: Option<Waiter>,
    /// The last note.
    pub(crate) note: Option<Note>,
    /// What is wrong with a note that came.
    pub(crate) note_trouble: Option<String>,
    /// When it goes, whoever still has to hear something.
    pub(crate) leave_by: Option<Ms>,
    door: Door,
    door_trouble: Option<String>,
    fault: Option<String>,
    caller: Option<Caller>,
    scratch: Vec<u8>,
    born: Ms,
    look_at: Ms,
    pages: Pages,
    grown: bool,
    told_trouble: Option<String>,
    told_gone: bool,
}

impl Shim {
    /// Makes the shim of the present folder.
    ///
    /// # Errors
    /// When it cannot be reached there.
    pub(crate) fn new(own: Own) -> io::Result<Self> {
        let now = SystemClock.awake();
        Ok(Self {
            own,
            me: myself()?,
            engine: None,
            waiter: None,
            note: None,
            note_trouble: None,
            leave_by: None,
            door: Door::open(SOCKET)?,
            door_trouble: None,
            fault: None,
            caller: None,
            scratch: Vec::with_capacity(CHUNK),
            born: now,
            look_at: now + LOOK,
            pages: Pages::Used,
            grown: false,
            told_trouble: None,
            told_gone: false,
        })
    }

    /// Holds the engine until nothing of it is left, or leaves without one.
    pub(crate) fn run(mut self) {
        loop {
            // A fault in here must not take the engine down: what it was about is given up, and the rest goes on.
            match catch_unwind(AssertUnwindSafe(|| self.turn())) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    self.fault = Some("the shim met a fault of its own, and goes on".to_owned());
                    std::thread::sleep(REST);
                }
            }
        }
        self.door.close();
    }

    /// Waits, then does what can be done; returns whether to go on.
    fn turn(&mut self) -> bool {
        if self.wait(SystemClock.awake()) {
            self.pages.used();
        }
        let now = SystemClock.awake();
        self.hear(now);
        self.hear_children(now);
        self.serve(now);
        self.look(now);
        self.settle(now);
        self.tell_state();
        !self.is_over(now)
    }

    /// Waits until something can be done or is due; returns whether something can be done.
    fn wait(&self, now: Ms) -> bool {
        let engine = self.engine.as_ref();
        let reads = [
            Some(PollFd::new(&self.door, PollFlags::IN)),
            self.caller.as_ref().map(|caller| PollFd::new(caller, interest(caller))),
            self.waiter.as_ref().map(|waiter| PollFd::new(waiter, PollFlags::IN)),
            engine.and_then(|it| it.output.waits_for()).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
            engine.and_then(|it| it.errors.waits_for()).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
            engine.and_then(|it| it.input.waits_for()).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)),
        ];
        let mut watched: Vec<PollFd<'_>> = reads.into_iter().flatten().collect();
        let wait = self.due_in(now);
        let most = Timespec { tv_sec: wait / 1_000, tv_nsec: wait % 1_000 * 1_000_000 };
        match rustix::event::poll(&mut watched, Some(&most)) {
            Ok(count) => count > 0,
            Err(_) => {
                // Interrupted, or the machine is short of something: never a reason to spin.
                std::thread::sleep(Duration::from_millis(1));
                false
            }
        }
    }

    fn due_in(&self, now: Ms) -> Ms {
        let first_words = self.engine.is_none().then_some(self.born + FIRST_WORDS);
        let engine = self.engine.as_ref().and_then(|engine| engine.due_in(now)).map(|wait| now.saturating_add(wait));
        let due = [Some(self.look_at), first_words, self.leave_by, engine].into_iter().flatten().min();
        due.map_or(LOOK, |due| due.saturating_sub(now).clamp(0, LOOK))
    }

    /// Hears the runner that is connected, then those that come; the last one stays.
    fn hear(&mut self, now: Ms) {
        // One that takes no news any more may have said more than can be read at once.
        self.hear_orders(self.caller.as_ref().is_some_and(Caller::is_lost), now);
        while let Some(stream) = self.door.accept() {
            // What the one before it has said by now counts.
            self.hear_orders(true, now);
            self.drop_caller();
            if let Ok(mut caller) = Caller::new(stream) {
                caller.tell(&News::Hello(Box::new(self.hello())));
                self.told_trouble = self.trouble();
                self.told_gone = false;
                self.caller = Some(caller);
            }
        }
        if self.caller.as_ref().is_some_and(Caller::is_lost) {
            self.drop_caller();
            if self.engine.is_none() {
                self.leave_by = Some(now);
            }
        }
    }

    fn hear_orders(&mut self, all: bool, now: Ms) {
        loop {
            let Some(caller) = &mut self.caller else { return };
            let more = caller.read(&mut self.scratch);
            while let Some(order) = self.caller.as_mut().and_then(Caller::order) {
                self.obey(order, now);
            }
            if !(more && all) {
                return;
            }
        }
    }

    fn obey(&mut self, order: Order, now: Ms) {
        for news in self.take_order(order, now) {
            self.tell(&news);
        }
    }

    fn drop_caller(&mut self) {
        self.caller = None;
        if let Some(engine) = &mut self.engine {
            engine.input.forget_askers();
        }
    }

    fn hear_children(&mut self, now: Ms) {
        let events = self.waiter.as_mut().map(Waiter::events).unwrap_or_default();
        for event in events {
            let Some(engine) = &mut self.engine else { return };
            match event {
                Event::Empty => {
                    engine.keeper.childless();
                    // Its thread is done; the end of its pipe would wake the loop for ever.
                    self.waiter = None;
                }
                Event::Exited(pid, exit) => {
                    if let Some(answers) = engine.exited(pid, &exit, now) {
                        self.answer(answers);
                        self.tell(&News::EngineExited { exit });
                    }
                }
            }
        }
    }

    /// Moves bytes in both directions, and takes the steps of a stop.
    fn serve(&mut self, now: Ms) {
        let Some(engine) = &mut self.engine else { return };
        self.grown |= engine.pump(&mut self.scratch, now);
        let mut answers = engine.input.write(now);
        let (dropped, stuck) = engine.climb(now);
        answers.extend(dropped);
        self.answer(answers);
        if let Some(left) = stuck {
            self.tell(&News::Stuck { left });
        }
    }

    fn look(&mut self, now: Ms) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK;
        if self.leave_by.is_some() {
            return;
        }
        let looked = self.door.check();
        self.door_trouble = looked.err().map(|error| format!("the shim's socket cannot be made again: {error}"));
        self.pages.look();
    }

    fn settle(&mut self, now: Ms) {
        let Some(gone) = self.engine.as_mut().and_then(|engine| engine.settle(now)) else { return };
        if !self.told_gone {
            self.told_gone = true;
            let gone = News::Gone(gone.clone());
            // Who hears it may remove the folder, and who comes now reads the record.
            self.door.close();
            self.leave_by.get_or_insert(now + LAST_WORDS);
            self.tell_growth();
            self.tell(&gone);
        }
    }

    /// Tells how much output there is, if the runner has heard everything else, and what does not work.
    fn tell_state(&mut self) {
        if let Some(caller) = &mut self.caller {
            caller.flush();
            if caller.heard_all() {
                self.tell_growth();
            }
        }
        let trouble = self.trouble();
        if trouble != self.told_trouble {
            self.told_trouble.clone_from(&trouble);
            self.tell(&News::Trouble { what: trouble });
        }
    }

    fn tell_growth(&mut self) {
        if !std::mem::take(&mut self.grown) {
            return;
        }
        if let Some(engine) = &mut self.engine {
            let (head, errors) = (engine.output.sink().head(), engine.errors.sink().total());
            let ended = engine.output.has_ended();
            self.tell(&News::Grown { head, errors, ended });
        }
    }

    fn tell(&mut self, news: &News) {
        if let Some(caller) = &mut self.caller {
            caller.tell(news);
        }
    }

    fn answer(&mut self, answers: Answers) {
        for (seq, result) in answers {
            self.tell(&News::Taken { seq, result });
        }
    }

    fn is_over(&self, now: Ms) -> bool {
        let too_late = self.engine.is_none() && now >= self.born + FIRST_WORDS;
        let heard = self.caller.as_ref().is_none_or(|caller| caller.heard_all() || caller.is_lost());
        too_late || self.leave_by.is_some_and(|by| heard || now >= by)
    }

    fn trouble(&self) -> Option<String> {
        let own = [&self.note_trouble, &self.door_trouble, &self.fault].into_iter().flatten().cloned();
        let all: Vec<String> = self.engine.iter().flat_map(Engine::troubles).chain(own).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn hello(&mut self) -> Hello {
        let mut hello = Hello {
            version: VERSION,
            shim: self.me,
            engine: None,
            exit: None,
            stopping: false,
            note: self.note.clone(),
            base: 0,
            head: 0,
            errors: 0,
            output_at: None,
            errors_at: None,
            input_at: None,
            answered: None,
            stuck: Vec::new(),
            trouble: self.trouble(),
            containment: Containment::Subreaper,
            messages: 0,
            output_ended: false,
        };
        if let Some(engine) = &mut self.engine {
            // Who comes now reads it.
            engine.output.sink().flush();
            engine.describe(&mut hello);
        }
        self.grown = false;
        hello
    }
}

fn interest(caller: &Caller) -> PollFlags {
    if caller.heard_all() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
}
