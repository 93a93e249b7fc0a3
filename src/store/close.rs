//! The only place that closes a row, writes down that an engine is gone, or takes a close back.
//!
//! Each is one transaction of row, timeline entry and sweep item, so that there is no reap without its entry, no entry
//! without its reap, and never two, whatever else runs at the same time or dies in between.

use crate::entry::NewEntry;
use crate::session::{Id, Session};
use crate::store::error::{At, is_taken};
use crate::store::sweeps::{SweepItem, insert_item};
use crate::store::timeline::write_entry;
use crate::store::{Conn, Store, StoreError};
use crate::time::UtcMs;

/// The beginning of both ways to end a row. A row changes its runner only together with its generation.
macro_rules! end_row {
    () => {
        "UPDATE sessions SET status = 'ended', ended_at = $3, end_reason = $4, updated_at = $3, next_check_at = NULL,
             check_delay_ms = NULL
         WHERE id = $1 AND status <> 'ended' AND generation = $2 AND runner_id = $5"
    };
}

/// What a close rests on, and so what must still be true for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The runner said that the engine of this generation is gone: it stopped it (`stopped`, `already_stopped`) or told
    /// of its end (an `ended` record). Nothing that happens to the row can bring it back, so only status,
    /// generation and runner are compared. Must never be used on the strength of a list, a silence or an error.
    EngineGone,
    /// No runner vouched for the end of this engine (`machine_gone`, `orphaned`, `start_failed`), so the row must be
    /// exactly as used as it was when the question was asked: runner, status, `reopened`, last activity, driver's claim
    /// and keep are compared too.
    Unchanged,
}

/// A close to be made.
#[derive(Debug, Clone, Copy)]
pub struct Close<'a> {
    /// The row as it was read before the decision.
    pub session: &'a Session,
    /// When.
    pub at: UtcMs,
    /// Why: a word of [`crate::verdict::Verdict`], or the runner's own.
    pub reason: &'a str,
    /// What it rests on.
    pub guard: Guard,
    /// What the timeline says; its session, generation, `once` and `engine_gone` are the store's.
    pub entry: &'a NewEntry,
    /// What the pass did, when a pass does it.
    pub item: Option<&'a SweepItem>,
}

/// What came of a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Row, entry and item stand.
    Done,
    /// Something else closed, moved or used the row first; nothing was written.
    LostRace,
}

/// What came of writing down that an engine is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// The entry stands; the runner may forget.
    Done,
    /// An entry said so already; the runner may forget.
    AlreadyThere,
    /// The row is open and of that generation, so it is to be closed instead; the runner must remember.
    StillOpen,
    /// The store never had that session or generation; the runner must remember, for whoever had it.
    Unknown,
}

impl Recorded {
    /// Returns whether this call wrote the entry.
    #[must_use]
    pub fn is_done(self) -> bool {
        self == Self::Done
    }

    /// Returns whether the store has an entry about this engine's end, so that its runner may forget it.
    #[must_use]
    pub fn may_forget(self) -> bool {
        matches!(self, Self::Done | Self::AlreadyThere)
    }
}

/// What came of taking a close back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reopened {
    /// The row is active again.
    Done,
    /// The owner has another open session in that repo; nothing was written.
    Taken,
    /// An entry says that this engine is gone; nothing was written.
    AlreadyStopped,
    /// The row was changed first; nothing was written.
    LostRace,
}

impl Store {
    /// Closes a row, with its entry and its sweep item, in one transaction. The only function that does.
    ///
    /// What must be true before the call: under [`Guard::EngineGone`], that the runner of this row said of this very
    /// generation that its engine is gone; under [`Guard::Unchanged`], that a rule calls for the close of the row as it
    /// was read, and that the row was read after the answer it rests on was asked for. What this function sees to
    /// itself: the row is open and of the generation that was read (and as used as it was, see [`Guard`]), and this
    /// generation has no end entry since it was last reopened. Otherwise nothing at all is written.
    ///
    /// # Errors
    /// When the store fails; then nothing was written either.
    pub async fn close_session(&self, close: &Close<'_>) -> Result<Closed, StoreError> {
        let Close { session, entry, item, .. } = close;
        let mut tx = self.begin().await?;
        if !end_row(&mut tx, close).await.at(self)? {
            return Ok(Closed::LostRace);
        }
        let entry = about(entry, &session.id, session.generation);
        let once = format!("ended:{}:{}", session.generation, session.reopened);
        let gone = close.guard == Guard::EngineGone;
        if !write_entry(&mut tx, &entry, Some(once), gone).await.at(self)? {
            return Ok(Closed::LostRace);
        }
        if let Some(item) = item {
            insert_item(&mut tx, item).await.at(self)?;
        }
        tx.commit().await.at(self)?;
        Ok(Closed::Done)
    }

    /// Writes down that an engine is gone whose row is ended or of another generation, and closes nothing.
    ///
    /// At most one entry says so per session and generation, whether it closed the row or not.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn record_stopped(
        &self,
        session_id: &Id,
        generation: i64,
        entry: &NewEntry,
        item: Option<&SweepItem>,
    ) -> Result<Recorded, StoreError> {
        let mut tx = self.begin().await?;
        let sql = "SELECT generation, status <> 'ended' FROM sessions WHERE id = $1";
        let row = sqlx::query_as::<_, (i64, bool)>(sql).bind(session_id.as_str()).fetch_optional(&mut *tx).await;
        match row.at(self)? {
            Some((current, true)) if current == generation => return Ok(Recorded::StillOpen),
            Some((current, _)) if current >= generation => {}
            _ => return Ok(Recorded::Unknown),
        }
        let entry = about(entry, session_id, generation);
        if !write_entry(&mut tx, &entry, Some(format!("stopped:{generation}")), true).await.at(self)? {
            return Ok(Recorded::AlreadyThere);
        }
        if let Some(item) = item {
            insert_item(&mut tx, item).await.at(self)?;
        }
        tx.commit().await.at(self)?;
        Ok(Recorded::Done)
    }

    /// Returns whether an entry says that the engine of this generation is gone.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn has_stopped(&self, session_id: &Id, generation: i64) -> Result<bool, StoreError> {
        let mut connection = self.reader().acquire().await.at(self)?;
        engine_is_gone(&mut connection, session_id, generation).await.at(self)
    }

    /// Takes a close back: the row becomes `active` again, `reopened` counts up, and its use counts as activity of kind
    /// `engine`, now.
    ///
    /// Only when the row is ended and of the runner, generation and `reopened` that were read, no entry says that this
    /// engine is gone, and its owner has no other open session in that repo; all decided in one transaction.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn reopen_session(
        &self,
        session: &Session,
        at: UtcMs,
        entry: &NewEntry,
        item: Option<&SweepItem>,
    ) -> Result<Reopened, StoreError> {
        let mut tx = self.begin().await?;
        if engine_is_gone(&mut tx, &session.id, session.generation).await.at(self)? {
            return Ok(Reopened::AlreadyStopped);
        }
        match open_row(&mut tx, session, at).await {
            Ok(true) => {}
            Ok(false) => return Ok(Reopened::LostRace),
            Err(error) if is_taken(&error) => return Ok(Reopened::Taken),
            Err(error) => return Err(error).at(self),
        }
        let entry = about(entry, &session.id, session.generation);
        let once = format!("reopened:{}:{}", session.generation, session.reopened + 1);
        if !write_entry(&mut tx, &entry, Some(once), false).await.at(self)? {
            return Ok(Reopened::LostRace);
        }
        if let Some(item) = item {
            insert_item(&mut tx, item).await.at(self)?;
        }
        tx.commit().await.at(self)?;
        Ok(Reopened::Done)
    }
}

/// Ties an entry to the row that it is written with, whatever the caller filled in.
fn about(entry: &NewEntry, session_id: &Id, generation: i64) -> NewEntry {
    NewEntry { session_id: session_id.clone(), generation, ..entry.clone() }
}

async fn end_row(tx: &mut Conn, close: &Close<'_>) -> Result<bool, sqlx::Error> {
    let session = close.session;
    let sql = match close.guard {
        Guard::EngineGone => end_row!(),
        Guard::Unchanged => concat!(
            end_row!(),
            " AND status = $6 AND reopened = $7 AND last_activity_at IS NOT DISTINCT FROM $8
              AND last_used_at IS NOT DISTINCT FROM $9 AND driver_at IS NOT DISTINCT FROM $10
              AND keep_until IS NOT DISTINCT FROM $11"
        ),
    };
    let query = sqlx::query(sql)
        .bind(session.id.as_str())
        .bind(session.generation)
        .bind(close.at.0)
        .bind(close.reason)
        .bind(session.runner_id.as_str());
    let query = match close.guard {
        Guard::EngineGone => query,
        Guard::Unchanged => query
            .bind(session.status.as_str())
            .bind(session.reopened)
            .bind(session.last_activity_at.map(|t| t.0))
            .bind(session.last_used().map(|t| t.0))
            .bind(session.driver_at.map(|t| t.0))
            .bind(session.keep_until.map(|t| t.0)),
    };
    Ok(query.execute(tx).await?.rows_affected() == 1)
}

async fn engine_is_gone(tx: &mut Conn, session_id: &Id, generation: i64) -> Result<bool, sqlx::Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM timeline WHERE session_id = $1 AND generation = $2 AND engine_gone = 1)";
    sqlx::query_scalar(sql).bind(session_id.as_str()).bind(generation).fetch_one(tx).await
}

async fn open_row(tx: &mut Conn, session: &Session, at: UtcMs) -> Result<bool, sqlx::Error> {
    let sql = "UPDATE sessions SET status = 'active', reopened = reopened + 1, ended_at = NULL, end_reason = NULL,
                   updated_at = $5,
                   last_activity_at = CASE WHEN last_activity_at > $5 THEN last_activity_at ELSE $5 END,
                   last_activity_kind = 'engine', next_check_at = NULL, check_delay_ms = NULL
               WHERE id = $1 AND status = 'ended' AND runner_id = $2 AND generation = $3 AND reopened = $4";
    let query = sqlx::query(sql)
        .bind(session.id.as_str())
        .bind(session.runner_id.as_str())
        .bind(session.generation)
        .bind(session.reopened)
        .bind(at.0);
    Ok(query.execute(tx).await?.rows_affected() == 1)
}
