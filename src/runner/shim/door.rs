//! The socket in the session's folder, which stays there although somebody removes it.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};

/// A listening socket and the file that stands for it.
#[derive(Debug)]
pub(crate) struct Door {
    name: &'static str,
    listener: UnixListener,
    /// Device and number of the file.
    file: (u64, u64),
}

impl Door {
    /// Opens it under `name` in the present folder, in place of whatever is there.
    ///
    /// # Errors
    /// When that fails; what was there stays then.
    pub(crate) fn open(name: &'static str) -> io::Result<Self> {
        // Nobody reaches it before it is the owner's alone and takes callers.
        let beside = format!(".{name}.new");
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&beside)?;
        listener.set_nonblocking(true)?;
        fs::set_permissions(&beside, Permissions::from_mode(0o600))?;
        fs::rename(&beside, name)?;
        Ok(Self { name, listener, file: which(name)? })
    }

    /// Opens it again, if its file is no longer there.
    ///
    /// # Errors
    /// When that fails; who is connected stays so.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        if which(self.name).is_ok_and(|file| file == self.file) {
            return Ok(());
        }
        *self = Self::open(self.name)?;
        Ok(())
    }

    /// Returns the next caller; none when there is none.
    pub(crate) fn accept(&self) -> Option<UnixStream> {
        self.listener.accept().ok().map(|(caller, _)| caller)
    }

    /// Removes its file; nobody comes any more.
    pub(crate) fn close(&self) {
        if which(self.name).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(self.name);
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn which(name: &str) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(name).map(|file| (file.dev(), file.ino()))
}
