//! Why a runner cannot run at all.

use std::io;
use std::path::PathBuf;

/// Why a state folder cannot be used; one sentence each.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another runner uses it.
    #[error("another runner uses the state folder {0}; stop it first, or give this one a folder of its own")]
    InUse(PathBuf),
    /// It belongs to another runner.
    #[error("the state folder {folder} belongs to the runner \"{kept}\", but this one is called \"{given}\"")]
    OtherRunner {
        /// The folder.
        folder: PathBuf,
        /// The identity that stands in it.
        kept: String,
        /// The identity that was given.
        given: String,
    },
    /// A file in it is damaged that cannot be set aside.
    #[error("{0} is damaged ({1}); restore it, or move the whole state folder away and reset the runner")]
    Damaged(PathBuf, String),
    /// It cannot be read or written.
    #[error("the state folder {0} cannot be used: {1}")]
    Io(PathBuf, #[source] io::Error),
}
