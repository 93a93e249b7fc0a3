//! Which file the store is, so that a worker notices when somebody moves or replaces it. It says nothing about what is in it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::store::{Store, StoreError};

/// A file as the file system knows it, whatever its name is.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Place {
    /// Looks which file is there now.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = path.metadata()?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }
}

impl Store {
    /// Checks that the file that was opened still lies where it lay: otherwise what is written now is lost to everybody else.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] when it was moved, deleted or replaced, or nobody can tell; then nothing may be stopped.
    pub async fn check_in_place(&self) -> Result<(), StoreError> {
        let place = &self.inner.place;
        let found = tokio::fs::metadata(&place.path).await;
        if found.is_ok_and(|found| (found.dev(), found.ino()) == (place.device, place.inode)) {
            return Ok(());
        }
        Err(StoreError::unusable(self.name(), "it was moved or replaced while in use; put it back, or restart Sexton"))
    }
}
