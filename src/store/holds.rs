//! What holds the reaper back from one session: a request to keep it, and a driver's claim.

use crate::entry::NewEntry;
use crate::session::Id;
use crate::store::error::At;
use crate::store::timeline::insert_entry;
use crate::store::{Conn, Store, StoreError};
use crate::time::UtcMs;

/// Keeps an open session, on a further condition.
macro_rules! keep_sql {
    ($condition:literal) => {
        concat!(
            "UPDATE sessions SET keep_until = $2, keep_reason = $3, updated_at = $4,
                 last_activity_at = CASE WHEN last_activity_at > $4 THEN last_activity_at ELSE $4 END,
                 last_activity_kind = 'keep',
                 shared_at = CASE WHEN shared_at >= $4 THEN shared_at ELSE $4 END,
                 next_check_at = NULL, check_delay_ms = NULL
             WHERE id = $1 AND status <> 'ended'",
            $condition
        )
    };
}

/// What came of claiming the right to drive a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The caller drives it.
    Yours,
    /// Somebody else does.
    HeldBy {
        /// Who.
        driver: String,
        /// When that claim was made or renewed.
        since: UtcMs,
    },
    /// There is no such open session.
    NotOpen,
}

impl Store {
    /// Keeps an open session by request until `until`, with its entry in the same transaction; false when there is no such
    /// open session, and nothing was written. It is activity of kind `keep` and clears the back-off.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn keep_and_tell(
        &self,
        id: &Id,
        (until, reason): (UtcMs, &str),
        at: UtcMs,
        entry: &NewEntry,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        if !keep(&mut tx, keep_sql!(""), id, (until, reason, at)).await.at(self)? {
            return Ok(false);
        }
        insert_entry(&mut tx, entry).await.at(self)?;
        tx.commit().await.at(self)?;
        Ok(true)
    }

    /// As [`Store::keep_and_tell`], but only forward: false, and nothing was written, also where the session is kept as long
    /// or longer already.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn extend_and_tell(
        &self,
        id: &Id,
        (until, reason): (UtcMs, &str),
        at: UtcMs,
        entry: &NewEntry,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let sql = keep_sql!(" AND (keep_until IS NULL OR keep_until < $2)");
        if !keep(&mut tx, sql, id, (until, reason, at)).await.at(self)? {
            return Ok(false);
        }
        insert_entry(&mut tx, entry).await.at(self)?;
        tx.commit().await.at(self)?;
        Ok(true)
    }

    /// Claims or renews the right to drive an open session, provided that nobody else's claim is younger than
    /// `stale_before` (exactly there is lapsed). Writes `driver` and `driver_at`, and clears the back-off.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn claim_driver(
        &self,
        id: &Id,
        driver: &str,
        at: UtcMs,
        stale_before: UtcMs,
    ) -> Result<Claim, StoreError> {
        let sql = "UPDATE sessions SET driver = $2, driver_at = CASE WHEN driver_at > $3 THEN driver_at ELSE $3 END,
                       next_check_at = NULL, check_delay_ms = NULL
                   WHERE id = $1 AND status <> 'ended'
                       AND (driver IS NULL OR driver = $2 OR driver_at IS NULL OR driver_at <= $4)";
        let mut tx = self.begin().await?;
        let query = sqlx::query(sql).bind(id.as_str()).bind(driver.to_owned()).bind(at.0).bind(stale_before.0);
        if query.execute(&mut *tx).await.at(self)?.rows_affected() == 1 {
            tx.commit().await.at(self)?;
            return Ok(Claim::Yours);
        }
        let sql = "SELECT driver, driver_at FROM sessions WHERE id = $1 AND status <> 'ended'";
        let held = sqlx::query_as::<_, (Option<String>, Option<i64>)>(sql).bind(id.as_str());
        Ok(match held.fetch_optional(&mut *tx).await.at(self)? {
            Some((Some(driver), Some(since))) => Claim::HeldBy { driver, since: UtcMs(since) },
            _ => Claim::NotOpen,
        })
    }

    /// Gives up the right to drive; false when `driver` did not hold it. `driver_at` stays, since somebody was there
    /// then: giving up is no reason to be reaped earlier.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn release_driver(&self, id: &Id, driver: &str) -> Result<bool, StoreError> {
        let sql = "UPDATE sessions SET driver = NULL WHERE id = $1 AND driver = $2 AND status <> 'ended'";
        let query = sqlx::query(sql).bind(id.as_str()).bind(driver.to_owned());
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }
}

async fn keep(
    tx: &mut Conn,
    sql: &'static str,
    id: &Id,
    (until, reason, at): (UtcMs, &str, UtcMs),
) -> Result<bool, sqlx::Error> {
    let query = sqlx::query(sql).bind(id.as_str()).bind(until.0).bind(reason.to_owned()).bind(at.0);
    Ok(query.execute(tx).await?.rows_affected() == 1)
}
