//! What can go wrong with the store, told apart by what the caller can do about it.

use crate::store::Store;

/// A failure of the store; each reads as one sentence that names it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// It cannot be opened: a person has to change the URL, the permissions, or the build.
    #[error("the store {store} cannot be used: {why}")]
    Unusable {
        /// The path or URL as configured.
        store: String,
        /// What is in the way, and what to do.
        why: String,
    },
    /// The file is damaged: a person has to restore it, and nothing may be reaped meanwhile.
    #[error("the store {store} is damaged, so nothing is reaped: {why}")]
    Damaged {
        /// The file's path.
        store: String,
        /// What SQLite, or a row, says.
        why: String,
    },
    /// Another process holds it for too long: the same call may succeed later.
    #[error("the store {store} is busy: another process has been writing to it for too long")]
    Busy {
        /// The file's path.
        store: String,
    },
    /// It refused this call: a full disk, a lost file, a value that breaks a rule of the tables.
    #[error("the store {store} failed: {why}")]
    Failed {
        /// The file's path.
        store: String,
        /// What SQLite says.
        why: String,
    },
}

impl StoreError {
    pub(super) fn unusable(store: &str, why: impl Into<String>) -> Self {
        Self::Unusable { store: store.to_owned(), why: why.into() }
    }

    pub(super) fn of(store: &str, error: &sqlx::Error) -> Self {
        let store = store.to_owned();
        let why = error.to_string();
        match primary_code(error) {
            Some(BUSY | LOCKED) => Self::Busy { store },
            Some(CORRUPT | NOT_A_DATABASE) => Self::Damaged { store, why },
            _ if matches!(error, sqlx::Error::PoolTimedOut) => Self::Busy { store },
            _ => Self::Failed { store, why },
        }
    }
}

const BUSY: i64 = 5;
const LOCKED: i64 = 6;
const CORRUPT: i64 = 11;
const NOT_A_DATABASE: i64 = 26;

/// Returns SQLite's primary result code; the upper bits of its extended codes only refine it.
fn primary_code(error: &sqlx::Error) -> Option<i64> {
    let code: i64 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

/// Returns whether a unique index refused the row.
pub(super) fn is_taken(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|e| e.is_unique_violation())
}

/// A value in a row that the types of [`crate::session`] do not know.
#[derive(Debug)]
pub(super) struct BadRow(pub String);

/// Turns a lower failure into one that names the store.
pub(super) trait At<T> {
    fn at(self, store: &Store) -> Result<T, StoreError>;
}

impl<T> At<T> for Result<T, sqlx::Error> {
    fn at(self, store: &Store) -> Result<T, StoreError> {
        self.map_err(|error| StoreError::of(store.name(), &error))
    }
}

impl<T> At<T> for Result<T, BadRow> {
    fn at(self, store: &Store) -> Result<T, StoreError> {
        self.map_err(|BadRow(why)| StoreError::Damaged { store: store.name().to_owned(), why })
    }
}
