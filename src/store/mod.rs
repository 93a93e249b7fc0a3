//! All SQL of the project, behind [`Store`]. It keeps and narrows; it decides nothing about sessions.
//!
//! The statements are portable: `$1`, `ON CONFLICT`, `RETURNING`, whole milliseconds, ids as TEXT. What only SQLite
//! understands is marked with `sqlite:` (`json_each`, for lists of values) or lives in [`open`]. Rules that every function
//! keeps: a transaction holds SQL and nothing else, it begins with `BEGIN IMMEDIATE`, and a row is closed in [`close`]
//! alone. Inside a transaction only its own connection is used: the next writer waits for it.

mod activity;
mod candidates;
mod close;
mod deliveries;
mod due_soon;
mod error;
mod events;
mod holds;
mod ids;
mod imports;
mod open;
mod place;
mod placements;
#[cfg(test)]
mod plans;
mod retention;
mod rows;
mod runners;
mod runs;
mod sessions;
mod settings;
mod starts;
mod sweeps;
mod timeline;
mod tokens;
mod webhooks;
mod workers;

use std::sync::Arc;

use sqlx::{Sqlite, SqliteConnection, SqlitePool, Transaction};

pub use activity::Touch;
pub use candidates::{Candidate, Cursor};
pub use close::{Close, Closed, Guard, Recorded, Reopened};
pub use deliveries::{DeliveryFilter, Due, Queue};
pub use due_soon::{DueSoonCursor, Windows};
pub use error::StoreError;
pub use events::EventFilter;
pub use holds::Claim;
pub use ids::Neighbours;
pub use imports::Imported;
pub use placements::Placement;
pub use retention::{Keep, Protected, Pruned};
pub use runners::RunnerMemory;
pub use runs::{RunBegun, RunFilter, RunNamer};
pub use sessions::{Begun, Inserted, SessionFilter};
pub use settings::PAUSED;
pub use sweeps::{NewSweep, Sweep, SweepItem};
pub use timeline::EntryFilter;
pub use tokens::Token;
pub use webhooks::Subscription;

use error::At;
use place::Place;

/// A stored time further ahead than this is a clock's mistake.
pub const FUTURE_SLACK_MS: crate::time::Ms = crate::time::MINUTE;

const BEGIN: &str = "BEGIN IMMEDIATE";

/// The store: sessions, their timeline, runners, runs, sweeps, tokens and settings. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// What people call it: the file's path.
    name: String,
    /// Which file it is.
    place: Place,
    /// One connection, so that writers of this process queue here and not on the file's lock.
    writer: SqlitePool,
    readers: SqlitePool,
}

impl Store {
    /// Returns what people call the store: the file's path.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Waits until all connections are closed; what was committed is on disk before and after.
    pub async fn close(&self) {
        self.inner.readers.close().await;
        self.inner.writer.close().await;
    }

    fn reader(&self) -> &SqlitePool {
        &self.inner.readers
    }

    fn writer(&self) -> &SqlitePool {
        &self.inner.writer
    }

    /// Begins a transaction that may write, and so waits for other writers now instead of failing half-way.
    async fn begin(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        match self.writer().begin_with(BEGIN).await {
            // This connection still believes in an earlier transaction: the pool discards it now, and opens another.
            Err(sqlx::Error::InvalidSavePointStatement) => self.writer().begin_with(BEGIN).await.at(self),
            begun => begun.at(self),
        }
    }
}

/// A connection inside a transaction.
type Conn = SqliteConnection;
