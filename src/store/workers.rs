//! Signs of life of the processes that hold touches back in memory, and what follows when one is missing.

use crate::session::Id;
use crate::store::error::At;
use crate::store::{FUTURE_SLACK_MS, Store, StoreError};
use crate::time::{Ms, UtcMs};

/// A touch that was held back is written up to this much after its window ends.
const WRITTEN_BEHIND: Ms = 2 * crate::time::SECOND;

impl Store {
    /// Writes a worker's sign of life.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn beat(&self, worker_id: &Id, now: UtcMs) -> Result<(), StoreError> {
        let sql = "INSERT INTO workers (id, alive_at) VALUES ($1, $2)
                   ON CONFLICT (id) DO UPDATE SET alive_at = excluded.alive_at";
        sqlx::query(sql).bind(worker_id.as_str()).bind(now.0).execute(self.writer()).await.at(self)?;
        Ok(())
    }

    /// Signs a worker off that stops cleanly: it has written all that it held back.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn retire(&self, worker_id: &Id) -> Result<(), StoreError> {
        let sql = "DELETE FROM workers WHERE id = $1";
        sqlx::query(sql).bind(worker_id.as_str()).execute(self.writer()).await.at(self)?;
        Ok(())
    }

    /// Makes up for the touches that a crashed worker held back: when a worker has given no sign of life for
    /// `silent_for`, open rows written since that sign minus `throttle` (and a moment more, see [`WRITTEN_BEHIND`]) move forward by
    /// `throttle`, at most to `now`.
    ///
    /// The same transaction forgets those workers, so that processes which notice at once move the rows once. Returns
    /// how many rows moved.
    ///
    /// # Errors
    /// When the store fails; then nothing moved and nothing is forgotten.
    pub async fn forgive_crashes(&self, now: UtcMs, silent_for: Ms, throttle: Ms) -> Result<u64, StoreError> {
        let silent = "SELECT min(alive_at) FROM workers WHERE alive_at <= $1 OR alive_at > $2";
        let (before, after) = (now.minus(silent_for).0, now.plus(FUTURE_SLACK_MS).0);
        let query = sqlx::query_scalar(silent).bind(before).bind(after);
        let any: Option<i64> = query.fetch_one(self.reader()).await.at(self)?;
        if any.is_none() {
            return Ok(0);
        }
        let mut tx = self.begin().await?;
        let query = sqlx::query_scalar(silent).bind(before).bind(after);
        let Some(last_sign) = query.fetch_one(&mut *tx).await.at(self)? else { return Ok(0) };
        let last_sign: i64 = last_sign;
        let moved = sqlx::query(MOVE_FORWARD)
            .bind(UtcMs(last_sign).minus(throttle + WRITTEN_BEHIND).0)
            .bind(now.0)
            .bind(throttle)
            .execute(&mut *tx)
            .await
            .at(self)?;
        let forget = "DELETE FROM workers WHERE alive_at <= $1 OR alive_at > $2";
        sqlx::query(forget).bind(before).bind(after).execute(&mut *tx).await.at(self)?;
        tx.commit().await.at(self)?;
        Ok(moved.rows_affected())
    }
}

/// `last_used_at` equals `last_activity_at` where that is set, and has the index.
pub(super) const MOVE_FORWARD: &str = "UPDATE sessions SET
        last_activity_at = CASE WHEN last_activity_at + $3 > $2 THEN $2 ELSE last_activity_at + $3 END
    WHERE status <> 'ended' AND last_used_at >= $1 AND last_activity_at IS NOT NULL AND last_activity_at < $2";
