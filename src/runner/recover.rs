//! What an earlier life of the runner left: each engine that has no end record gets one, or is held until it may.
//!
//! Today an engine dies with its runner: its shim notices and stops it. So nothing here looks for engines to take up
//! again, only for their ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::protocol::Ended;
use crate::runner::engines::Lines;
use crate::runner::intents::{self, EndIntent, StartIntent};
use crate::runner::records::{self, Record};
use crate::runner::session::{Ending, Session};
use crate::runner::settings::EngineSpec;
use crate::runner::shim::wire::{EXIT, Gone, LOCK};
use crate::runner::{Runner, files};
use crate::session::Id;

/// How often a shim that is still at work is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long the start waits for one that nobody stops any more.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);

/// A session's folder without an end record.
struct Leftover {
    id: Id,
    generation: i64,
    folder: PathBuf,
    start: Result<StartIntent, String>,
}

impl Runner {
    /// Turns what an earlier life left into end records, then says that the runner is ready.
    pub(crate) async fn recover(&self) {
        let entries = std::fs::read_dir(self.dir().sessions()).into_iter().flatten().flatten();
        for folder in entries.map(|entry| entry.path()) {
            match self.leftover(&folder) {
                Some(leftover) => self.take_up(leftover).await,
                None => self.clear(&folder),
            }
        }
        self.shared.ready.store(true, Ordering::Release);
    }

    fn leftover(&self, folder: &Path) -> Option<Leftover> {
        let id: Id = folder.file_name()?.to_str()?.parse().ok()?;
        let (generation, start) = intents::read_start(folder)?;
        let recorded = self.known().records.get(&id, generation).is_some();
        (!recorded).then(|| Leftover { id, generation, folder: folder.to_owned(), start })
    }

    /// A folder whose engine is recorded, or never came to be, is not needed; what nobody knows is set aside.
    fn clear(&self, folder: &Path) {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if Id::fits(name) && folder.is_dir() {
            let _ = std::fs::remove_dir_all(folder);
            return;
        }
        match self.dir().quarantine(folder, "it is no session's folder", self.settings().clock.now()) {
            Ok(sentence) => self.damaged().push(sentence),
            Err(error) => self.damaged().push(format!("{} cannot be set aside: {error}", folder.display())),
        }
    }

    /// Holds the engine as ending until it is proven gone and recorded. Only what takes long is not waited for.
    async fn take_up(&self, leftover: Leftover) {
        let session = self.placeholder(&leftover);
        self.known().sessions.insert(leftover.id.clone(), Arc::clone(&session));
        let at_work = !is_free(&leftover.folder);
        let runner = self.clone();
        let settling = tokio::spawn(async move {
            // The shim is still stopping its engine.
            while !is_free(&leftover.folder) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            runner.settle_leftover(&session, leftover).await;
        });
        if !at_work {
            let _ = tokio::time::timeout(SETTLED_WITHIN, settling).await;
        }
    }

    /// Makes a session that stands for an engine which is ending, of whose doings nothing can be told.
    fn placeholder(&self, leftover: &Leftover) -> Arc<Session> {
        let (engine, cwd) = match &leftover.start {
            Ok(start) => (start.engine.clone(), start.cwd.clone()),
            Err(_) => (String::new(), String::new()),
        };
        let spec = self.settings().engines.get(&engine).cloned().unwrap_or_else(EngineSpec::default);
        let kind = (engine, spec, Arc::new(Lines) as _);
        let now = self.settings().clock.awake();
        let (session, _) = Session::starting(leftover.id.clone(), leftover.generation, kind, cwd, now);
        session.fell_mute();
        let reason = intents::read_end(&leftover.folder).map_or_else(|| "exited".to_owned(), |intent| intent.reason);
        session.begin_end(&mut session.facts(), Ending { reason, ..Ending::default() });
        session
    }

    async fn settle_leftover(&self, session: &Arc<Session>, leftover: Leftover) {
        let gone = files::read_json::<Gone>(&leftover.folder.join(EXIT)).ok().flatten();
        if gone.is_none() {
            self.free(session).await;
        }
        let ended = self.end_of(&leftover, gone);
        let record = Record::now(ended, &*self.settings().clock);
        self.keep(&record).await;
        {
            let mut known = self.known();
            known.records.insert(record.clone());
            known.sessions.remove(&leftover.id);
        }
        self.set_aside_or_remove(&leftover);
        session.is_gone(record.ended);
    }

    fn end_of(&self, leftover: &Leftover, gone: Option<Gone>) -> Ended {
        let intent = intents::read_end(&leftover.folder).filter(|intent| intent.generation == leftover.generation);
        let rebooted = leftover.start.as_ref().is_ok_and(|start| start.boot_id != self.shared.boot_id);
        let (reason, detail) = match (&intent, rebooted, &leftover.start) {
            (Some(EndIntent { reason, .. }), ..) => (reason.as_str(), None),
            (None, true, _) => ("host_reboot", Some("the machine was booted again".to_owned())),
            (None, false, Err(why)) => {
                ("exited", Some(format!("the runner died, and the record of the start is damaged: {why}")))
            }
            (None, false, Ok(_)) => ("exited", Some("the runner died, and its engines with it".to_owned())),
        };
        let proven = gone.is_some() || rebooted;
        let gone = gone.unwrap_or_default();
        Ended {
            sweep_id: intent.as_ref().and_then(|intent| intent.sweep_id.clone()),
            resume: intent.as_ref().and_then(|intent| intent.resume.clone()),
            exit: gone.exit,
            stages: gone.stages,
            detail,
            containment: Some(if proven { "subreaper" } else { "best_effort" }.to_owned()),
            ..records::blank(leftover.id.clone(), leftover.generation, reason)
        }
    }

    fn set_aside_or_remove(&self, leftover: &Leftover) {
        let done = match &leftover.start {
            Ok(_) => std::fs::remove_dir_all(&leftover.folder),
            Err(why) => self
                .dir()
                .quarantine(&leftover.folder, why, self.settings().clock.now())
                .map(|sentence| self.damaged().push(sentence)),
        };
        if let Err(error) = done {
            tracing::warn!(folder = %leftover.folder.display(), %error, "an ended session's folder is in the way");
        }
    }
}

/// Returns whether no shim is at work in the folder.
fn is_free(folder: &Path) -> bool {
    match File::open(folder.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
