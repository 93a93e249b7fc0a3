//! Talking with one engine's shim, from the moment it runs until nothing of the engine is left.
//!
//! One task per engine, and the only one that speaks with its shim: so what the engine said and what it was told come in
//! one order, and the note that the shim keeps is always one that was true at a moment. The conversation is here; `news`
//! takes in what the shim says, `orders` tells it what to do, `reading` reads the output from the shim's log, and `search`
//! finds the shim again when it does not answer.

mod news;
mod orders;
mod reading;
mod search;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::runner::attend::orders::Waiting;
use crate::runner::doings::Doings;
use crate::runner::engine::{Engine, Errand};
use crate::runner::engines::Opening;
use crate::runner::link::Link;
use crate::runner::output::{Cutter, Times};
use crate::runner::shim::wire::{Gone, Hello, News, OUT, Order};
use crate::runner::{Runner, files};
use crate::time::Ms;

/// Why nobody speaks with a shim any more.
pub(crate) enum Parting {
    /// Nothing of the engine is left.
    Gone(Gone),
    /// The shim itself died, and left no proof.
    ShimDied,
    /// This runner goes; shim and engine stay.
    RunnerLeft,
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
    /// The shim was never met by this life of the runner: with what its engine's conversation was opened.
    opening: Option<Opening>,
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
        self.session.facts().read_to = from;
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
    pub(crate) fn will_resume(&mut self, opening: Opening) {
        self.opening = Some(opening);
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

    fn now(&self) -> Ms {
        self.runner.settings().clock.awake()
    }
}

async fn until(due: Option<Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due).await;
    }
}
