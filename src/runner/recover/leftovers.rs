//! What lies among the sessions' folders: what is left of an engine, what is not needed any more, and what is strange.

use std::io;
use std::path::{Path, PathBuf};

use crate::runner::Runner;
use crate::runner::intents::{self, EndIntent, StartIntent};
use crate::runner::link;
use crate::session::Id;

/// A session's folder without an end record.
pub(super) struct Leftover {
    pub(super) id: Id,
    pub(super) generation: i64,
    pub(super) folder: PathBuf,
    pub(super) start: Result<StartIntent, String>,
    pub(super) end: Option<EndIntent>,
}

/// What an entry among the sessions' folders is.
enum Found {
    Leftover(Box<Leftover>),
    /// Its engine is held by now.
    Held,
    /// Its engine of this generation is recorded, or never came to be.
    Needless(Option<(Id, i64)>),
    /// No session's folder.
    Strange,
}

impl Runner {
    /// Clears away what is not needed, and returns what is left of an engine.
    pub(super) fn sort_out(&self, folder: &Path) -> io::Result<Option<Leftover>> {
        match self.look_for(folder)? {
            Found::Leftover(leftover) => return Ok(Some(*leftover)),
            Found::Held => {}
            Found::Needless(recorded) => {
                let cleared = match recorded {
                    Some((id, generation)) => self.clear_folder(folder, &id, generation),
                    None => std::fs::remove_dir_all(folder),
                };
                if let Err(error) = cleared {
                    tracing::warn!(folder = %folder.display(), %error, "an ended session's folder is in the way");
                }
            }
            Found::Strange => self.set_aside(folder, "it is no session's folder"),
        }
        Ok(None)
    }

    fn look_for(&self, folder: &Path) -> io::Result<Found> {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_folder = std::fs::symlink_metadata(folder)?.is_dir();
        let Some(id) = name.parse::<Id>().ok().filter(|_| is_folder) else { return Ok(Found::Strange) };
        if self.session(&id).is_some() {
            return Ok(Found::Held);
        }
        let started = intents::read_start(folder)?;
        let vacant = link::vacant(folder).is_some();
        let (generation, start) = match started {
            Some(started) => started,
            None if vacant => return Ok(Found::Needless(None)),
            // Somebody holds an engine here, whatever became of the record of its start.
            None => (1, Err("it is gone".to_owned())),
        };
        if vacant && self.known().records.get(&id, generation).is_some() {
            return Ok(Found::Needless(Some((id, generation))));
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

    /// Keeps copies of the damaged records of a start for a person. They stay where they are until the end of the engine
    /// is on disk: without them, nobody would know that there was one.
    pub(super) fn copy_aside(&self, folder: &Path, why: &str) {
        let damaged = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in damaged.filter(|entry| entry.file_name().to_string_lossy().starts_with("start.")) {
            let sentence = match self.dir().quarantine_copy(&entry.path(), why, self.settings().clock.now()) {
                Ok(sentence) => sentence,
                Err(error) => format!("{} cannot be set aside: {error}", entry.path().display()),
            };
            self.damaged().push(sentence);
        }
    }
}

pub(super) fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be read, so it is not known which engines are there: {error}", path.display())
}
