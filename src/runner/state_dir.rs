//! The state folder: who it belongs to, how often it was started from, and where everything in it lies.
//!
//! ```text
//! runner.lock       locked, as the folder itself, for as long as a runner uses it
//! identity.json     who the runner is, and which folder this is, for ever
//! epoch             +1 at each start, on disk before anything is reported
//! sessions/ID/      one engine: its intents, its shim's lock and socket
//! ended/ID.GEN.json one engine that is gone
//! output/ID.GEN/    what it had written
//! quarantine/       what could not be read, kept for a person
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::runner::error::OpenError;
use crate::runner::files;
use crate::session::Id;
use crate::time::UtcMs;

/// A state folder that this process alone uses.
#[derive(Debug)]
pub(crate) struct StateDir {
    root: PathBuf,
    /// The mark that every engine of this folder carries in its environment; no other folder has the same.
    pub(crate) mark: String,
    /// Which folder this is, told to workers: a runner on another one has lost what it knew.
    pub(crate) state_id: String,
    /// How often the folder was started from.
    pub(crate) epoch: i64,
    /// Held for as long as the folder is used: the folder itself, and the file that stands for it.
    _locks: (File, File),
}

#[derive(Serialize, Deserialize)]
struct Identity {
    runner_id: Id,
    mark: String,
    /// Missing in a folder of a runner that did not tell it yet.
    #[serde(default)]
    state_id: Option<String>,
    /// Device and number of the folder that the mark was made for.
    #[serde(default)]
    place: Option<(u64, u64)>,
}

impl StateDir {
    /// Takes the folder for `runner_id`, making it when it is not there, and counts the epoch up.
    ///
    /// # Errors
    /// When another runner uses it, it belongs to another one, or it cannot be read or written.
    pub(crate) fn take(root: &Path, runner_id: &Id) -> Result<Self, OpenError> {
        let unusable = |error| OpenError::Io(root.to_owned(), error);
        for folder in ["sessions", "ended", "output", "quarantine"] {
            files::make_folder(&root.join(folder)).map_err(unusable)?;
        }
        let lock = File::create(root.join("runner.lock")).map_err(unusable)?;
        let whole = lock.try_lock().and_then(|()| files::lock_folder(root)).map_err(|error| match error {
            TryLockError::WouldBlock => OpenError::InUse(root.to_owned()),
            TryLockError::Error(error) => unusable(error),
        })?;
        let (mark, state_id) = identity(root, runner_id)?;
        let epoch = next_epoch(root)?;
        Ok(Self { root: root.to_owned(), mark, state_id, epoch, _locks: (whole, lock) })
    }

    /// Returns the folder of one session's engine.
    #[must_use]
    pub(crate) fn session(&self, id: &Id) -> PathBuf {
        self.sessions().join(id.as_str())
    }

    /// Returns the folder of the sessions' folders.
    #[must_use]
    pub(crate) fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// Returns the folder of the end records.
    #[must_use]
    pub(crate) fn ended(&self) -> PathBuf {
        self.root.join("ended")
    }

    /// Returns the folder of what ended engines had written.
    #[must_use]
    pub(crate) fn outputs(&self) -> PathBuf {
        self.root.join("output")
    }

    /// Returns where the output of one ended engine is kept.
    #[must_use]
    pub(crate) fn output(&self, id: &Id, generation: i64) -> PathBuf {
        self.outputs().join(format!("{id}.{generation}"))
    }

    /// Sets `path` aside for a person to look at, and returns a sentence about it.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub(crate) fn quarantine(&self, path: &Path, why: &str, now: UtcMs) -> io::Result<String> {
        let (name, aside) = self.aside(path, now)?;
        fs::rename(path, &aside)?;
        Ok(kept_as(&name, why, &aside))
    }

    /// As [`StateDir::quarantine`], but `path` stays where it is as well.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub(crate) fn quarantine_copy(&self, path: &Path, why: &str, now: UtcMs) -> io::Result<String> {
        let (name, aside) = self.aside(path, now)?;
        fs::copy(path, &aside)?;
        Ok(kept_as(&name, why, &aside))
    }

    fn aside(&self, path: &Path, now: UtcMs) -> io::Result<(String, PathBuf)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
        let aside = self.root.join("quarantine").join(format!("{name}-{}", now.0));
        Ok((name, aside))
    }

    /// Returns how much lies in quarantine.
    #[must_use]
    pub(crate) fn quarantined(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.join("quarantine")).into_iter().flatten().flatten();
        entries.map(|entry| format!("{} is damaged and kept for a person to look at", entry.path().display())).collect()
    }
}

fn kept_as(name: &str, why: &str, aside: &Path) -> String {
    format!("{name} was damaged ({why}) and is kept as {}", aside.display())
}

/// Returns the folder's mark and `state_id`, each made once and on disk before it is used.
///
/// A copy of a folder gets a mark of its own: what carries the mark may be killed, and belongs to the folder that was
/// copied.
fn identity(root: &Path, runner_id: &Id) -> Result<(String, String), OpenError> {
    let path = root.join("identity.json");
    let kept =
        files::read_json::<Identity>(&path).map_err(|error| OpenError::Damaged(path.clone(), error.to_string()))?;
    let place =
        fs::metadata(root).map(|it| (it.dev(), it.ino())).map_err(|error| OpenError::Io(root.to_owned(), error))?;
    let (mark, state_id) = match kept {
        Some(Identity { runner_id: kept, .. }) if kept != *runner_id => {
            return Err(OpenError::OtherRunner {
                folder: root.to_owned(),
                kept: kept.to_string(),
                given: runner_id.to_string(),
            });
        }
        Some(Identity { mark, state_id: Some(state_id), place: Some(kept), .. }) if kept == place => {
            return Ok((mark, state_id));
        }
        Some(Identity { state_id, place: Some(kept), .. }) if kept != place => (random(), state_id),
        Some(Identity { mark, state_id, .. }) => (mark, state_id),
        None => (random(), None),
    };
    let state_id = state_id.unwrap_or_else(random);
    let (runner_id, place) = (runner_id.clone(), Some(place));
    let identity = Identity { runner_id, mark: mark.clone(), state_id: Some(state_id.clone()), place };
    files::write_json(&path, &identity).map_err(|error| OpenError::Io(root.to_owned(), error))?;
    Ok((mark, state_id))
}

fn random() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

fn next_epoch(root: &Path) -> Result<i64, OpenError> {
    let path = root.join("epoch");
    let last = match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map_err(|error| OpenError::Damaged(path.clone(), format!("{error}")))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0_i64,
        Err(error) => return Err(OpenError::Io(path, error)),
    };
    let epoch = last.saturating_add(1);
    files::write(&path, epoch.to_string().as_bytes()).map_err(|error| OpenError::Io(path, error))?;
    Ok(epoch)
}
