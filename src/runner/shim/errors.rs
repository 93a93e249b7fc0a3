//! The engine's standard error: the last one to two mebibytes of it, in two files that take turns.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::runner::shim::stream::Sink;
use crate::runner::shim::wire::{ERRORS, ERRORS_MOST, ERRORS_OLD};
use crate::time::Ms;

/// The two files.
#[derive(Debug)]
pub(crate) struct Errors {
    folder: PathBuf,
    current: Option<File>,
    /// Where the file that is written begins.
    base: u64,
    total: u64,
}

impl Errors {
    /// Makes an empty one in `folder`.
    #[must_use]
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), current: None, base: 0, total: 0 }
    }

    /// Returns how many bytes there were.
    #[must_use]
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    fn file(&mut self) -> io::Result<&File> {
        if self.total - self.base >= ERRORS_MOST {
            match fs::rename(self.folder.join(ERRORS), self.folder.join(ERRORS_OLD)) {
                // Whoever removed it does not keep the engine from complaining.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            (self.current, self.base) = (None, self.total);
        }
        if self.current.is_none() {
            let mut how = OpenOptions::new();
            let how = how.write(true).create(true).truncate(true).mode(0o600);
            self.current = Some(how.open(self.folder.join(ERRORS))?);
        }
        self.current.as_ref().ok_or_else(|| io::Error::other("there is no file"))
    }
}

impl Sink for Errors {
    fn put(&mut self, bytes: &[u8], _: Ms) -> io::Result<usize> {
        self.file()?;
        let at = self.total - self.base;
        let room = usize::try_from(ERRORS_MOST - at).unwrap_or(usize::MAX);
        let part = bytes.get(..bytes.len().min(room)).unwrap_or(bytes);
        let written = self.file()?.write_at(part, at)?;
        self.total += written as u64;
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_bytes_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut errors = Errors::new(folder.path());
        let chunk = |byte: u8| vec![byte; 400 * 1024];
        for byte in b'a'..=b'g' {
            let mut bytes = chunk(byte);
            while !bytes.is_empty() {
                let written = errors.put(&bytes, 0).unwrap();
                bytes.drain(..written);
            }
        }
        let [new, old] = [ERRORS, ERRORS_OLD].map(|name| fs::read(folder.path().join(name)).unwrap());
        assert_eq!((errors.total(), old.len() as u64), (7 * 400 * 1024, ERRORS_MOST));
        assert_eq!(new.len() as u64, errors.total() % ERRORS_MOST);
        assert!(new.ends_with(&chunk(b'g')) && old.starts_with(&vec![b'c'; 176 * 1024]));
    }
}
