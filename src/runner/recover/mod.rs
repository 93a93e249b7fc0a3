//! What an earlier life of the runner left: engines that live are taken up again, and each that does not gets its end.
//!
//! A shim that holds its lock holds an engine, whatever else is damaged or does not answer: such a session is tracked, if
//! need be with a state that nobody can tell. Only where the lock is free is an engine's end recorded.

mod leftovers;
mod stops;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::runner::attend::Attendant;
use crate::runner::engine::{Ending, Engine, Errand, Plan};
use crate::runner::engines::{Opening, adapter};
use crate::runner::intents::{self, StartIntent};
use crate::runner::link::{self, Link, Vacant};
use crate::runner::recover::leftovers::{Leftover, entries, unreadable};
use crate::runner::shim::wire::{EXIT, Gone, HELD};
use crate::runner::{Runner, files};

/// How many folders are looked at side by side.
const AT_ONCE: usize = 16;
/// How long the start waits for one shim that does not answer, or for one engine's output to be read again.
const ANSWER_WITHIN: Duration = Duration::from_millis(800);
/// How long the start waits for one end that takes its time to be proven.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
/// How often a folder that cannot be read is tried again.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// What is left of an engine, the session that stands for it, and where errands for it arrive.
type Found = (Leftover, Arc<Engine>, mpsc::Receiver<Errand>);

impl Runner {
    /// Takes up what an earlier life left, then says that the runner is ready.
    ///
    /// It is not ready before every folder could be read to its end: an engine that is not seen must not be missing from
    /// a list that says it is whole. So what cannot be read is named and tried again, until `shutdown`.
    pub(crate) async fn recover(&self, shutdown: &CancellationToken) {
        let mut told: Vec<String> = Vec::new();
        loop {
            let unread = self.recover_once().await;
            self.damaged().retain(|sentence| !told.contains(sentence));
            if unread.is_empty() {
                break;
            }
            if unread != told {
                tracing::error!(?unread, "the runner is not ready: not all that an earlier life left can be read");
            }
            self.damaged().extend(unread.iter().cloned());
            told = unread;
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(READ_AGAIN) => {}
            }
        }
        self.shared.ready.store(true, Ordering::Release);
    }

    /// Takes up what can be read, and returns a sentence about each folder that cannot.
    async fn recover_once(&self) -> Vec<String> {
        let sessions = self.dir().sessions();
        let reading = sessions.clone();
        let folders = match files::aside(move || entries(&reading)).await {
            Ok(folders) => folders,
            Err(error) => return vec![unreadable(&sessions, &error)],
        };
        let looking = folders.into_iter().map(|folder| self.look_at(folder));
        let looked: Vec<_> = futures_util::stream::iter(looking).buffer_unordered(AT_ONCE).collect().await;
        let (mut found, mut unread) = (Vec::new(), Vec::new());
        for one in looked {
            match one {
                Ok(one) => found.extend(one),
                Err(sentence) => unread.push(sentence),
            }
        }
        // Only once all are held is any output read: what an engine says of its conversation is held against all others.
        let taking = found.into_iter().map(|one| self.take_up(one));
        futures_util::stream::iter(taking).buffer_unordered(AT_ONCE).collect::<()>().await;
        unread
    }

    /// Holds what is left of an engine in a folder; fails with a sentence when that cannot be read.
    async fn look_at(&self, folder: PathBuf) -> Result<Option<Found>, String> {
        let (runner, reading) = (self.clone(), folder.clone());
        let leftover = files::aside(move || runner.sort_out(&reading)).await;
        let Some(leftover) = leftover.map_err(|error| unreadable(&folder, &error))? else { return Ok(None) };
        let (session, errands) = self.placeholder(&leftover);
        self.known().sessions.insert(leftover.id.clone(), Arc::clone(&session));
        Ok(Some((leftover, session, errands)))
    }

    /// Attends the engine again where its shim is at work, and else records its end.
    async fn take_up(&self, (leftover, session, errands): Found) {
        let folder = leftover.folder.clone();
        match files::aside(move || Ok(link::vacant(&folder))).await.ok().flatten() {
            Some(vacant) => {
                let runner = self.clone();
                let settling = tokio::spawn(async move { runner.settle_leftover(&session, leftover, vacant).await });
                let _ = tokio::time::timeout(SETTLED_WITHIN, settling).await;
            }
            None => self.adopt_engine(&session, errands, leftover).await,
        }
    }

    /// Makes a session that stands for what is left of an engine.
    fn placeholder(&self, leftover: &Leftover) -> (Arc<Engine>, mpsc::Receiver<Errand>) {
        let damaged = StartIntent::default();
        let start = leftover.start.as_ref().unwrap_or(&damaged);
        let mut spec = self.settings().engines.get(&start.engine).cloned().unwrap_or_default();
        spec.adapter = start.adapter;
        let plan = Plan {
            start: start.start.unwrap_or(leftover.generation),
            name: start.engine.clone(),
            adapter: adapter(spec.adapter),
            spec,
            cwd: start.cwd.clone(),
            owner_id: start.owner_id.clone().or_else(|| self.settings().owner.clone()),
        };
        let clock = &self.settings().clock;
        // Of another boot, its clock says nothing.
        let began = if start.boot_id == self.shared.boot_id { start.awake } else { clock.awake() };
        let (session, errands) = Engine::starting(leftover.id.clone(), leftover.generation, plan, began);
        let conversation = intents::read_conversation(&leftover.folder).or_else(|| start.engine_session_id.clone());
        {
            let mut facts = session.facts();
            facts.engine_session_id = conversation;
            facts.unfinished.clone_from(&leftover.end);
            facts.settled = true;
            facts.unread = true;
            if leftover.start.is_err() {
                // How it speaks is not known, so neither is what it does.
                facts.doings.fell_mute();
            }
        }
        (session, errands)
    }

    /// Takes up an engine whose shim is at work.
    ///
    async fn adopt_engine(&self, session: &Arc<Engine>, errands: mpsc::Receiver<Errand>, leftover: Leftover) {
        if let Err(why) = &leftover.start {
            let sentence = format!("the record of the start of the session {} is damaged: {why}", leftover.id);
            tracing::error!("{sentence}; its engine lives and is kept");
            self.damaged().push(sentence);
        }
        let mut attendant = Attendant::new(self.clone(), Arc::clone(session));
        let found = tokio::time::timeout(ANSWER_WITHIN, Link::find(&leftover.folder)).await;
        match found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok((link, hello)) => {
                session.known_to_run(&hello);
                self.go_on_stopping(session, Some(&hello)).await;
                let opening = opening(&leftover);
                let (runner, following) = (self.clone(), Arc::clone(session));
                let (caught_up, waiting) = tokio::sync::oneshot::channel();
                self.shared.tasks.spawn(async move {
                    attendant.resume(link, hello, &opening).await;
                    let _ = caught_up.send(());
                    runner.follow(following, attendant, errands).await;
                });
                let _ = tokio::time::timeout(ANSWER_WITHIN, waiting).await;
            }
            Err(error) => {
                tracing::error!(session_id = %session.id, %error, "the shim of an engine does not answer; it is kept");
                session.facts().trouble = Some(format!("its shim does not answer: {error}"));
                session.is_unreached();
                self.go_on_stopping(session, None).await;
                attendant.will_resume(opening(&leftover));
                self.shared.tasks.spawn(self.clone().follow(Arc::clone(session), attendant, errands));
            }
        }
    }

    /// Records the end of an engine that an earlier life left.
    ///
    /// What must be true: no shim is at work in its folder, and none can be while `vacant` lives. Then either the shim
    /// left the kernel's proof that nothing is left, or the machine was booted again, or what carries the engine's marks
    /// is killed until the kernel shows none of it.
    async fn settle_leftover(&self, session: &Arc<Engine>, leftover: Leftover, vacant: Vacant) {
        let exit = leftover.folder.join(EXIT);
        let gone = files::aside(move || files::read_json::<Gone>(&exit)).await.ok().flatten();
        let rebooted = leftover.start.as_ref().is_ok_and(|start| start.boot_id != self.shared.boot_id);
        let never_held = !leftover.folder.join(HELD).exists();
        session.begin_end(&mut session.facts(), end_of(&leftover, gone.as_ref(), rebooted, never_held));
        if let Some(gone) = gone.as_ref().filter(|_| session.facts().engine_session_id.is_none()) {
            // It may have told its conversation while nobody was there to hear it.
            Attendant::new(self.clone(), Arc::clone(session)).hear_out(gone).await;
        }
        let (folder, why) = (leftover.folder.clone(), leftover.start.as_ref().err().cloned());
        let keep_damaged = why.map(|why| self.copy_aside(&folder, &why));
        if rebooted && gone.is_none() {
            self.conclude_rebooted(session).await;
        } else {
            self.conclude(session, gone).await;
        }
        drop((vacant, keep_damaged));
    }
}

fn end_of(leftover: &Leftover, gone: Option<&Gone>, rebooted: bool, never_held: bool) -> Ending {
    let end = stops::that_ended(leftover.end.as_ref(), gone);
    let (reason, detail) = match (end, &leftover.start) {
        (Some(intent), _) => return stops::ending(intent),
        (None, _) if rebooted => ("host_reboot", Some("the machine was booted again".to_owned())),
        (None, Err(why)) => ("exited", Some(format!("the record of its start is damaged: {why}"))),
        (None, Ok(_)) if gone.is_some() => ("exited", None),
        (None, Ok(_)) if never_held => {
            ("start_failed", Some("the runner died while it started the engine, and the engine never ran".to_owned()))
        }
        (None, Ok(_)) => ("exited", Some("the shim that held the engine died".to_owned())),
    };
    Ending { reason: reason.to_owned(), detail, ..Ending::default() }
}

fn opening(leftover: &Leftover) -> Opening {
    let start = leftover.start.as_ref();
    Opening {
        cwd: start.map(|start| start.cwd.clone()).unwrap_or_default(),
        engine_session_id: start.ok().and_then(|start| start.engine_session_id.clone()),
    }
}

#[cfg(test)]
mod tests;
