//! Small files that are either there whole or not at all, also after a power cut.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Does what may wait for the disk where it holds up nobody else.
///
/// # Errors
/// Those of `work`; and when it panicked.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Makes a folder, and those above it, that only its owner may enter.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Locks a folder itself until what it returns is dropped: a lock that is not lost when somebody removes files.
///
/// # Errors
/// When somebody else holds it, or that cannot be told.
pub(crate) fn lock_folder(path: &Path) -> Result<File, TryLockError> {
    let folder = File::open(path).map_err(TryLockError::Error)?;
    match folder.try_lock() {
        // Network file systems lock files only; there, the file in the folder has to do.
        Err(TryLockError::Error(error)) if error.raw_os_error() == Some(Errno::BADF.raw_os_error()) => Ok(folder),
        locked => locked.map(|()| folder),
    }
}

/// Writes `value` as JSON into `path`: beside it first, then to the disk, then in its place.
///
/// # Errors
/// When any of that fails; what was there before is then still there.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    write(path, &serde_json::to_vec(value)?)
}

/// As [`write_json`], for text.
///
/// # Errors
/// As [`write_json`].
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let beside = folder.join(format!(".{name}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(folder)?.sync_all()
}

/// Removes a file, and makes sure that it stays removed.
///
/// # Errors
/// When it is there and cannot be removed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    }
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Reads a JSON file; none when there is no such file.
///
/// # Errors
/// When it cannot be read or is not what it should be.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
