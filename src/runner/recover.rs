//! What an earlier life of the runner left: each engine that has no end record gets one, or is held until it may.
//!
//! Today an engine dies with its runner: its shim notices and stops it. So nothing here looks for engines to take up
//! again, only for their ends.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::protocol::Ended;
use crate::runner::engine::{Ending, Engine, Plan};
use crate::runner::engines::adapter;
use crate::runner::intents::{self, EndIntent, StartIntent};
use crate::runner::records::{self, Record};
use crate::runner::shim::wire::{EXIT, Gone, LOCK};
use crate::runner::{Runner, files};
use crate::session::Id;

/// How often a shim that is still at work is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long the start waits for one that nobody stops any more.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);

/// How often a folder that cannot be read is tried again.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// A session's folder without an end record.
struct Leftover {
    id: Id,
    generation: i64,
    folder: PathBuf,
    start: Result<StartIntent, String>,
    end: Option<EndIntent>,
}

/// What an entry among the sessions' folders is.
enum Found {
    Leftover(Box<Leftover>),
    /// Its engine is held by now.
    Held,
    /// Its engine is recorded, or never came to be.
    Needless,
    /// No session's folder.
    Strange,
}

impl Runner {
    /// Turns what an earlier life left into end records, then says that the runner is ready.
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
        let mut unread = Vec::new();
        for folder in folders {
            let (runner, reading) = (self.clone(), folder.clone());
            match files::aside(move || runner.sort_out(&reading)).await {
                Ok(Some(leftover)) => self.take_up(leftover).await,
                Ok(None) => {}
                Err(error) => unread.push(unreadable(&folder, &error)),
            }
        }
        unread
    }

    /// Clears away what is not needed, and returns what is left of an engine.
    fn sort_out(&self, folder: &Path) -> io::Result<Option<Leftover>> {
        match self.find(folder)? {
            Found::Leftover(leftover) => return Ok(Some(*leftover)),
            Found::Held => {}
            Found::Needless => clear(folder),
            Found::Strange => self.set_aside(folder, "it is no session's folder"),
        }
        Ok(None)
    }

    fn find(&self, folder: &Path) -> io::Result<Found> {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_folder = std::fs::symlink_metadata(folder)?.is_dir();
        let Some(id) = name.parse::<Id>().ok().filter(|_| is_folder) else { return Ok(Found::Strange) };
        if self.session(&id).is_some() {
            return Ok(Found::Held);
        }
        let Some((generation, start)) = intents::read_start(folder)? else { return Ok(Found::Needless) };
        if self.known().records.get(&id, generation).is_some() {
            return Ok(Found::Needless);
        }
        let end = intents::read_end(folder).filter(|intent| intent.generation == generation);
        Ok(Found::Leftover(Box::new(Leftover { id, generation, folder: folder.to_owned(), start, end })))
    }

    fn set_aside(&self, path: &Path, why: &str) {
        let sentence = match self.dir().quarantine(path, why, self.settings().clock.now()) {
            Ok(sentence) => sentence,
            Err(error) => format!("{} cannot be set aside: {error}", path.display()),
        };
        self.damaged().push(sentence);
    }

    /// Holds the engine as ending until it is proven gone and recorded. Only what takes long is not waited for.
    async fn take_up(&self, leftover: Leftover) {
        let session = self.placeholder(&leftover);
        self.known().sessions.insert(leftover.id.clone(), Arc::clone(&session));
        let at_work = !is_free(&leftover.folder).await;
        let runner = self.clone();
        let settling = tokio::spawn(async move {
            // The shim is still stopping its engine.
            while !is_free(&leftover.folder).await {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            runner.settle_leftover(&session, leftover).await;
        });
        if !at_work {
            let _ = tokio::time::timeout(SETTLED_WITHIN, settling).await;
        }
    }

    /// Makes a session that stands for an engine which is ending, of whose doings nothing can be told.
    fn placeholder(&self, leftover: &Leftover) -> Arc<Engine> {
        let (name, cwd, owner_id) = match &leftover.start {
            Ok(start) => (start.engine.clone(), start.cwd.clone(), start.owner_id.clone()),
            Err(_) => (String::new(), String::new(), None),
        };
        let spec = self.settings().engines.get(&name).cloned().unwrap_or_default();
        let plan = Plan { name, adapter: adapter(spec.adapter), spec, cwd, owner_id };
        let now = self.settings().clock.awake();
        let (session, _) = Engine::starting(leftover.id.clone(), leftover.generation, plan, now);
        session.fell_mute();
        let reason = leftover.end.as_ref().map_or_else(|| "exited".to_owned(), |intent| intent.reason.clone());
        session.begin_end(&mut session.facts(), Ending { reason, ..Ending::default() });
        session
    }

    /// Records the end of an engine that an earlier life left.
    ///
    /// What must be true: no shim is at work in its folder. Then either the shim left the kernel's proof that nothing is
    /// left, or what carries the engine's marks is killed until the kernel shows none of it.
    async fn settle_leftover(&self, session: &Arc<Engine>, leftover: Leftover) {
        let exit = leftover.folder.join(EXIT);
        let gone = files::aside(move || files::read_json::<Gone>(&exit)).await.ok().flatten();
        if gone.is_none() {
            self.free(session).await;
        }
        let ended = self.end_of(&leftover, gone);
        let record = Record::now(ended, session.owner_id.clone(), &*self.settings().clock);
        self.keep(&record).await;
        // While the engine is still held, so that no successor's folder is there yet.
        let runner = self.clone();
        let _ = tokio::task::spawn_blocking(move || runner.set_aside_or_remove(&leftover)).await;
        self.let_rest(session, record);
    }

    /// Tells how an engine came to its end that an earlier life left.
    ///
    /// What must be true: nothing of it is left; this only finds the words for it.
    fn end_of(&self, leftover: &Leftover, gone: Option<Gone>) -> Ended {
        let intent = &leftover.end;
        let rebooted = leftover.start.as_ref().is_ok_and(|start| start.boot_id != self.shared.boot_id);
        let (reason, detail) = match (intent, rebooted, &leftover.start) {
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
        match &leftover.start {
            Ok(_) => clear(&leftover.folder),
            Err(why) => self.set_aside(&leftover.folder, why),
        }
    }
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be read, so it is not known which engines are there: {error}", path.display())
}

/// Removes a session's folder that is not needed any more.
///
/// What must be true: the end of its engine is on disk, or the folder was read to its end and no start is in it.
fn clear(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        tracing::warn!(folder = %folder.display(), %error, "an ended session's folder is in the way");
    }
}

/// Returns whether no shim is at work in the folder; when that cannot be told, one is.
async fn is_free(folder: &Path) -> bool {
    let lock = folder.join(LOCK);
    let free = move || match File::open(lock) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    tokio::task::spawn_blocking(free).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Settings;

    async fn until(what: impl Fn() -> bool) {
        while !what() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Puts something in the place of `folder` that nobody can read as one, and returns where it is kept meanwhile.
    fn hide(folder: &Path) -> PathBuf {
        let aside = folder.with_extension("aside");
        std::fs::rename(folder, &aside).unwrap();
        std::fs::write(folder, "no folder").unwrap();
        aside
    }

    #[tokio::test]
    async fn a_folder_of_sessions_that_cannot_be_read_is_not_an_empty_one() {
        let home = tempfile::tempdir().unwrap();
        let runner = Runner::open(Settings::in_home(home.path())).unwrap();
        let sessions = runner.dir().sessions();
        let aside = hide(&sessions);
        std::fs::create_dir(aside.join("s1")).unwrap();
        std::fs::write(aside.join("s1/start.3.json"), "damaged").unwrap();
        let shutdown = CancellationToken::new();
        let recovering = tokio::spawn({
            let (runner, shutdown) = (runner.clone(), shutdown.clone());
            async move { runner.recover(&shutdown).await }
        });
        until(|| !runner.damaged().is_empty()).await;
        assert!(!runner.is_ready());
        assert!(runner.damaged().iter().all(|sentence| sentence.starts_with(&sessions.display().to_string())));
        assert!(!runner.list(None).await.complete);

        std::fs::remove_file(&sessions).unwrap();
        std::fs::rename(&aside, &sessions).unwrap();
        recovering.await.unwrap();
        assert!(runner.is_ready());
        until(|| runner.known().records.get(&"s1".parse().unwrap(), 3).is_some()).await;
    }

    #[tokio::test]
    async fn a_runner_that_never_became_ready_still_stops() {
        let home = tempfile::tempdir().unwrap();
        let runner = Runner::open(Settings::in_home(home.path())).unwrap();
        hide(&runner.dir().sessions());
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        runner.recover(&shutdown).await;
        assert!(!runner.is_ready());
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_not_one_without_a_start() {
        let home = tempfile::tempdir().unwrap();
        assert!(intents::read_start(home.path()).unwrap().is_none());
        assert!(intents::read_start(&home.path().join("nowhere")).is_err());
    }
}
