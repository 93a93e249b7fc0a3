//! The engine as its shim holds it: pipes, log, input, and how far its end has come.

use std::io;
use std::path::Path;

use crate::protocol::EngineExit;
use crate::runner::files;
use crate::runner::process::Identity;
use crate::runner::shim::birth::Newborn;
use crate::runner::shim::errors::Errors;
use crate::runner::shim::input::{Answers, Input};
use crate::runner::shim::keeper::{Climbed, Keeper};
use crate::runner::shim::log::Log;
use crate::runner::shim::stream::Stream;
use crate::runner::shim::wire::{EXIT, Gone, HELD, Held, Hello, OUT, Spec, VERSION};
use crate::time::{Ms, SECOND};

/// How long after a record that could not be written it is tried again.
const WRITE_AGAIN: Ms = SECOND;

/// An engine that was started.
#[derive(Debug)]
pub(crate) struct Engine {
    /// Its stop.
    pub(crate) keeper: Keeper,
    /// Its stdin.
    pub(crate) input: Input,
    /// Its stdout.
    pub(crate) output: Stream<Log>,
    /// Its stderr.
    pub(crate) errors: Stream<Errors>,
    last_called: bool,
    held: Record<Held>,
    gone: Option<Record<Gone>>,
}

/// A record that must come to the disk.
#[derive(Debug)]
struct Record<T> {
    name: &'static str,
    value: T,
    written: bool,
    again: Ms,
    trouble: Option<String>,
}

impl<T: serde::Serialize> Record<T> {
    fn new(name: &'static str, value: T) -> Self {
        Self { name, value, written: false, again: 0, trouble: None }
    }

    /// Writes it, unless it is written, or it is too early to try again.
    fn write(&mut self, now: Ms) {
        if self.written || now < self.again {
            return;
        }
        match files::write_json(Path::new(self.name), &self.value) {
            Ok(()) => (self.written, self.trouble) = (true, None),
            Err(error) => {
                self.again = now.saturating_add(WRITE_AGAIN);
                self.trouble = Some(format!("{} cannot be written: {error}", self.name));
            }
        }
    }

    fn due_in(&self, now: Ms) -> Option<Ms> {
        (!self.written).then(|| self.again.saturating_sub(now).max(0))
    }
}

impl Engine {
    /// Takes an engine that was just started, and tries to write down who it is.
    #[must_use]
    pub(crate) fn new(newborn: Newborn, spec: &Spec, shim: Identity, boot_id: String, now: Ms) -> Self {
        let Newborn { engine, stdin, stdout, stderr, leaf } = newborn;
        let cgroup = leaf.as_ref().map(|leaf| leaf.folder().to_owned());
        let keeper = Keeper::new(engine, spec.graces, leaf);
        let containment = keeper.containment();
        let held = Held { version: VERSION, shim, engine, boot_id, containment, cgroup };
        let log = Log::new(Path::new(OUT), spec.segment_bytes, spec.output_most);
        let mut new = Self {
            keeper,
            input: Input::new(stdin),
            output: Stream::new(stdout, log),
            errors: Stream::new(stderr, Errors::new(Path::new("."))),
            last_called: false,
            held: Record::new(HELD, held),
            gone: None,
        };
        new.held.write(now);
        new
    }

    /// Moves bytes from the engine to the disk; returns whether there are more on it than before.
    pub(crate) fn pump(&mut self, scratch: &mut Vec<u8>, now: Ms) -> bool {
        let output = self.output.retry(now) | self.output.read(scratch, now);
        let errors = self.errors.retry(now) | self.errors.read(scratch, now);
        output | errors
    }

    /// Takes note that a child ended; if it was the engine's own process, its input is closed.
    pub(crate) fn exited(&mut self, pid: i32, exit: &EngineExit, now: Ms) -> Option<Answers> {
        self.keeper.exited(pid, exit, now).then(|| self.input.close())
    }

    /// Takes the step of a stop that is due; returns what could not be killed, if that is news.
    pub(crate) fn climb(&mut self, now: Ms) -> (Answers, Option<Vec<String>>) {
        if self.gone.is_some() {
            return (Answers::new(), None);
        }
        match self.keeper.climb(now) {
            Climbed::CloseInput => (self.input.close(), None),
            Climbed::Stuck(left) => (Answers::new(), Some(left)),
            Climbed::Nothing => (Answers::new(), None),
        }
    }

    /// Writes what is to be written; returns how it all went, once that is on disk.
    ///
    /// What must be true for that: the kernel says that nothing of the engine is left, and all it wrote is kept.
    pub(crate) fn settle(&mut self, now: Ms) -> Option<&Gone> {
        self.held.write(now);
        if !self.last_called && self.keeper.is_empty() {
            self.last_called = true;
            self.output.last_call();
            self.errors.last_call();
        }
        if self.last_called && self.gone.is_none() && self.output.is_done() && self.errors.is_done() {
            self.output.sink().sync();
            let head = self.output.sink().head();
            self.gone = Some(Record::new(EXIT, self.keeper.conclude(head, now)));
        }
        let gone = self.gone.as_mut()?;
        gone.write(now);
        gone.written.then_some(&gone.value)
    }

    /// Returns in how many milliseconds something is due.
    #[must_use]
    pub(crate) fn due_in(&self, now: Ms) -> Option<Ms> {
        let climbing = if self.gone.is_some() { None } else { self.keeper.due_in(now) };
        let records = [self.held.due_in(now), self.gone.as_ref().and_then(|gone| gone.due_in(now))];
        let streams = [self.output.due_in(now), self.errors.due_in(now)];
        records.into_iter().chain(streams).chain([climbing]).flatten().min()
    }

    /// Says how things are with it.
    pub(crate) fn describe(&mut self, hello: &mut Hello) {
        hello.engine = Some(self.keeper.engine());
        hello.exit = self.keeper.exit().cloned();
        hello.stopping = self.keeper.is_asked();
        hello.stuck = self.keeper.stuck().to_vec();
        hello.containment = self.keeper.containment();
        (hello.base, hello.head) = (self.output.sink().base(), self.output.sink().head());
        hello.errors = self.errors.sink().total();
        (hello.output_at, hello.errors_at) = (self.output.came(), self.errors.came());
        hello.input_at = self.input.taken_at();
        hello.answered = self.input.answered();
        hello.messages = self.input.messages();
        hello.output_ended = self.output.has_ended();
    }

    /// Says what does not work.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = String> {
        let output = self.output.trouble().map(|why| format!("the engine's output cannot be kept: {why}"));
        let errors = self.errors.trouble().map(|why| format!("the engine's standard error cannot be kept: {why}"));
        let gone = self.gone.as_ref().and_then(|gone| gone.trouble.clone());
        [output, errors, self.held.trouble.clone(), gone].into_iter().flatten()
    }
}

/// Returns who this process is.
///
/// # Errors
/// When the kernel does not show it.
pub(crate) fn myself() -> io::Result<Identity> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let facts = crate::runner::process::facts(me);
    facts.map(|facts| facts.identity).ok_or_else(|| io::Error::other("this process cannot be seen"))
}
