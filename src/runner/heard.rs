//! When somebody who may was last heard, also across a restart: that is no call.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use serde::{Deserialize, Serialize};

use crate::runner::files;
use crate::time::{MINUTE, Ms};

/// How much the file may lag behind; what is read from it counts as so much younger.
const SAVED_EVERY: Ms = MINUTE;

/// When the last call came, on the clock that stands still in sleep.
#[derive(Debug)]
pub(crate) struct Heard {
    at: AtomicI64,
    saved: AtomicI64,
    /// Where it is kept, when it matters to anybody.
    file: Option<PathBuf>,
    boot_id: String,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    boot_id: String,
    awake: Ms,
}

impl Heard {
    /// Takes up what an earlier life of this boot kept in `folder`; where there is nothing, somebody was heard `now`.
    ///
    /// Unless it is `wanted`, nothing is kept, and what was kept is removed: it would be old news once it is wanted.
    ///
    /// # Errors
    /// When old news cannot be removed.
    pub(crate) fn open(folder: &Path, wanted: bool, boot_id: &str, now: Ms) -> io::Result<Self> {
        let path = folder.join("heard.json");
        let known = if wanted { files::read_json::<Saved>(&path).ok().flatten() } else { None };
        if !wanted {
            files::remove(&path)?;
        }
        let known = known.filter(|saved| saved.boot_id == boot_id && saved.awake <= now);
        let at = known.map_or(now, |saved| saved.awake.saturating_add(SAVED_EVERY).min(now));
        let file = wanted.then_some(path);
        Ok(Self { at: at.into(), saved: Ms::MIN.into(), file, boot_id: boot_id.to_owned() })
    }

    /// Takes note of a call.
    pub(crate) fn now(&self, now: Ms) {
        self.at.fetch_max(now, Ordering::Relaxed);
    }

    /// Returns how long ago the last call came.
    #[must_use]
    pub(crate) fn ago(&self, now: Ms) -> Ms {
        now - self.at.load(Ordering::Relaxed)
    }

    /// Writes it down, if it is wanted and the file lags behind by too much; returns the error if that fails.
    pub(crate) async fn save(&self) -> io::Result<()> {
        let (at, saved) = (self.at.load(Ordering::Relaxed), self.saved.load(Ordering::Relaxed));
        let Some(file) = self.file.clone().filter(|_| at.saturating_sub(saved) >= SAVED_EVERY) else { return Ok(()) };
        let saving = Saved { boot_id: self.boot_id.clone(), awake: at };
        files::aside(move || files::write_json(&file, &saving)).await?;
        self.saved.store(at, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_restart_is_no_call_and_what_was_kept_never_looks_older_than_it_is() {
        let home = tempfile::tempdir().unwrap();
        let open = |wanted, boot: &str, now| Heard::open(home.path(), wanted, boot, now).unwrap();
        let first = open(true, "b", 1_000);
        assert_eq!(first.ago(5_000), 4_000, "without news, the start counts");
        first.save().await.unwrap();
        first.now(SAVED_EVERY);
        first.save().await.unwrap();
        assert_eq!(open(true, "b", 10 * MINUTE).ago(10 * MINUTE), 10 * MINUTE - 1_000 - SAVED_EVERY);
        assert_eq!(open(true, "another", 10 * MINUTE).ago(10 * MINUTE), 0);
        assert_eq!(open(true, "b", 500).ago(500), 0, "a clock that went back says nothing");
        open(false, "b", 10 * MINUTE).save().await.unwrap();
        assert_eq!(open(true, "b", 10 * MINUTE).ago(10 * MINUTE), 0, "old news are no news");
    }
}
