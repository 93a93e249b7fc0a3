//! Settings that are changed while processes run, so they lie in the store and not in the configuration.

use crate::store::error::At;
use crate::store::{Store, StoreError};

/// The setting whose presence means that sweeps act on nothing; its value says who paused and why.
pub const PAUSED: &str = "paused";

const SET: &str = "INSERT INTO settings (name, value) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// Lets all rows be looked at again.
const CLEAR_POSTPONED: &str = "UPDATE sessions SET next_check_at = NULL, check_delay_ms = NULL
    WHERE status <> 'ended' AND next_check_at IS NOT NULL";

/// The setting that holds the limits of the rules as the last process that swept used them.
const LIMITS: &str = "limits";

impl Store {
    /// Notes the limits that hold now; when they are not those noted before, lets all rows be looked at again, in the same
    /// transaction, and returns true.
    ///
    /// # Errors
    /// When the store fails; then nothing was noted, and the next process notices the change.
    pub async fn note_limits(&self, limits: &str) -> Result<bool, StoreError> {
        if self.setting(LIMITS).await?.as_deref() == Some(limits) {
            return Ok(false);
        }
        let mut tx = self.begin().await?;
        sqlx::query(CLEAR_POSTPONED).execute(&mut *tx).await.at(self)?;
        sqlx::query(SET).bind(LIMITS).bind(limits).execute(&mut *tx).await.at(self)?;
        tx.commit().await.at(self)?;
        Ok(true)
    }

    /// Reads a setting, if it is there.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        let query = sqlx::query_scalar("SELECT value FROM settings WHERE name = $1").bind(name);
        query.fetch_optional(self.reader()).await.at(self)
    }

    /// Writes a setting, in a transaction as everything that a pass writes.
    ///
    /// # Errors
    /// When the store fails; then the setting is as it was.
    pub async fn set_setting(&self, name: &str, value: &str) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query(SET).bind(name).bind(value).execute(&mut *tx).await.at(self)?;
        tx.commit().await.at(self)
    }

    /// Deletes a setting; false when it was not there.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn delete_setting(&self, name: &str) -> Result<bool, StoreError> {
        let query = sqlx::query("DELETE FROM settings WHERE name = $1").bind(name);
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Returns whether sweeps are paused.
    ///
    /// # Errors
    /// When the store fails; a caller that cannot tell must not stop anything.
    pub async fn is_paused(&self) -> Result<bool, StoreError> {
        Ok(self.setting(PAUSED).await?.is_some())
    }
}
