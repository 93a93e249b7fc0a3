//! Forgetting what is old enough, a bounded piece per call.

use crate::session::Id;
use crate::store::error::At;
use crate::store::events::note_forgotten;
use crate::store::sessions::json_ids;
use crate::store::{Conn, Store, StoreError};
use crate::time::{Ms, UtcMs};

/// For how long, or how much of it, history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Ended rows, since their end.
    pub ended_ms: Ms,
    /// Timeline entries, and sweeps in which something happened.
    pub timeline_ms: Ms,
    /// How many sweeps in which nothing happened.
    pub sweeps: u32,
}

/// What must stay whatever its age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Protected<'a> {
    /// Sessions that a runner still tracks or remembers.
    pub sessions: &'a [Id],
    /// Runners of which nobody knows what they still track or remember, since they did not answer.
    pub runners: &'a [Id],
}

/// How much was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Ended rows, with their runs and the tokens of their engines.
    pub sessions: u64,
    /// Timeline entries.
    pub entries: u64,
    /// Sweeps, with their items.
    pub sweeps: u64,
}

/// At most so many of each kind per call, so that no other writer waits long.
const PIECE: i64 = 1_000;

/// sqlite: `json_each`.
pub(super) const OLD_SESSIONS: &str = "SELECT id FROM sessions
    WHERE status = 'ended' AND ended_at <= $1 AND id NOT IN (SELECT value FROM json_each($2))
        AND runner_id NOT IN (SELECT value FROM json_each($3))
    ORDER BY ended_at LIMIT $4";

/// The word that an engine is gone stays as long as its row: it is what keeps a closed session closed.
pub(super) const OLD_ENTRIES: &str = "DELETE FROM timeline WHERE id IN (
    SELECT id FROM timeline WHERE at <= $1
        AND NOT (engine_gone = 1 AND EXISTS (SELECT 1 FROM sessions WHERE sessions.id = timeline.session_id))
    ORDER BY at, id LIMIT $2) RETURNING COALESCE(seq, 0)";

/// What happened to events long ago is of no use to anybody, sent or not.
pub(super) const OLD_DELIVERIES: &str = "DELETE FROM deliveries WHERE id IN (
    SELECT id FROM deliveries WHERE created_at <= $1 ORDER BY created_at LIMIT $2)";

/// The uneventful sweeps behind the last $1, and the eventful ones up to $2.
pub(super) const OLD_SWEEPS: &str = "SELECT id FROM (
        SELECT id FROM sweeps WHERE eventful = 0 ORDER BY started_at DESC, id DESC LIMIT $3 OFFSET $1)
    UNION ALL SELECT id FROM (
        SELECT id FROM sweeps WHERE eventful = 1 AND started_at <= $2 ORDER BY started_at, id LIMIT $3)";

impl Store {
    /// Forgets what is older than `keep` says, [`PIECE`] of each kind at most; a result with a figure that high asks
    /// for another call.
    ///
    /// Never forgets an open row, a protected one, or the word that the engine of an existing row is gone.
    ///
    /// # Errors
    /// When the store fails; what was forgotten until then stays so.
    pub async fn prune(&self, now: UtcMs, keep: &Keep, protected: &Protected<'_>) -> Result<Pruned, StoreError> {
        Ok(Pruned {
            sessions: self.prune_sessions(now.minus(keep.ended_ms), protected).await?,
            entries: self.prune_entries(now.minus(keep.timeline_ms)).await?,
            sweeps: self.prune_sweeps(now.minus(keep.timeline_ms), keep.sweeps).await?,
        })
    }

    async fn prune_sessions(&self, before: UtcMs, protected: &Protected<'_>) -> Result<u64, StoreError> {
        let query = sqlx::query_scalar(OLD_SESSIONS)
            .bind(before.0)
            .bind(json_ids(protected.sessions))
            .bind(json_ids(protected.runners))
            .bind(PIECE);
        let ids = self.read_ids(&query.fetch_all(self.reader()).await.at(self)?)?;
        if ids.is_empty() {
            return Ok(0);
        }
        let ids = json_ids(&ids);
        let mut tx = self.begin().await?;
        // Ended is asked again: the row may have been reopened or started anew since it was listed.
        let sql = "DELETE FROM sessions
                   WHERE id IN (SELECT value FROM json_each($1)) AND status = 'ended' AND ended_at <= $2";
        let query = sqlx::query(sql).bind(&ids).bind(before.0);
        let count = query.execute(&mut *tx).await.at(self)?.rows_affected();
        let sql = "DELETE FROM runs WHERE session_id IN (SELECT value FROM json_each($1))
                       AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = runs.session_id)";
        sqlx::query(sql).bind(&ids).execute(&mut *tx).await.at(self)?;
        let sql = "DELETE FROM tokens WHERE session_id IN (SELECT value FROM json_each($1))
                       AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = tokens.session_id)";
        sqlx::query(sql).bind(&ids).execute(&mut *tx).await.at(self)?;
        tx.commit().await.at(self)?;
        Ok(count)
    }

    async fn prune_entries(&self, before: UtcMs) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let query = sqlx::query_scalar(OLD_ENTRIES).bind(before.0).bind(PIECE);
        let forgotten: Vec<i64> = query.fetch_all(&mut *tx).await.at(self)?;
        if let Some(highest) = forgotten.iter().max() {
            note_forgotten(&mut tx, *highest).await.at(self)?;
        }
        sqlx::query(OLD_DELIVERIES).bind(before.0).bind(PIECE).execute(&mut *tx).await.at(self)?;
        tx.commit().await.at(self)?;
        Ok(forgotten.len() as u64)
    }

    async fn prune_sweeps(&self, before: UtcMs, keep: u32) -> Result<u64, StoreError> {
        let query = sqlx::query_scalar(OLD_SWEEPS).bind(i64::from(keep)).bind(before.0).bind(PIECE);
        let ids = self.read_ids(&query.fetch_all(self.reader()).await.at(self)?)?;
        if ids.is_empty() {
            return Ok(0);
        }
        let ids = json_ids(&ids);
        let mut tx = self.begin().await?;
        delete_of(&mut tx, "DELETE FROM sweep_items WHERE sweep_id IN (SELECT value FROM json_each($1))", &ids)
            .await
            .at(self)?;
        let sql = "DELETE FROM sweeps WHERE id IN (SELECT value FROM json_each($1))";
        let count = delete_of(&mut tx, sql, &ids).await.at(self)?;
        tx.commit().await.at(self)?;
        Ok(count)
    }
}

async fn delete_of(tx: &mut Conn, sql: &'static str, ids: &str) -> Result<u64, sqlx::Error> {
    Ok(sqlx::query(sql).bind(ids.to_owned()).execute(tx).await?.rows_affected())
}
