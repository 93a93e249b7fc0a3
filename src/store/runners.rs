//! Enrolled runners, and what is remembered of their answers.

use crate::protocol::tracked::TrackedSet;
use crate::session::{Id, Runner};
use crate::store::error::At;
use crate::store::rows::RunnerRow;
use crate::store::{Store, StoreError};
use crate::time::{Ms, SECOND, UtcMs};

/// What an accepted answer of a runner tells about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunnerMemory {
    /// The identity in it; kept once known, until a reset.
    pub identity: Option<String>,
    /// The state folder it runs on; kept once known, until a reset.
    pub state_id: Option<String>,
    /// Its epoch; only ever raised.
    pub epoch: Option<i64>,
    /// The version of the protocol that it says; only ever raised.
    pub protocol: Option<i64>,
}

impl From<&TrackedSet> for RunnerMemory {
    fn from(set: &TrackedSet) -> Self {
        Self {
            identity: set.runner_id.clone(),
            state_id: set.state_id.clone(),
            epoch: set.epoch,
            protocol: set.protocol,
        }
    }
}

/// `last_seen_at` is written at most this often, so it is never older than the truth by more.
const SEEN_EVERY_MS: Ms = SECOND;

macro_rules! select_runners {
    ($rest:literal) => {
        concat!(
            "SELECT id, url, token_file, created_at, last_seen_at, epoch, protocol, identity, state_id, \
             require_conditional_stop FROM runners ",
            $rest
        )
    };
}

impl Store {
    /// Enrols a runner, or changes URL, token file and `require_conditional_stop` of the enrolled one; what is
    /// remembered of it stays until a reset.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn add_runner(&self, runner: &Runner) -> Result<(), StoreError> {
        let sql = "INSERT INTO runners (id, url, token_file, created_at, last_seen_at, epoch, protocol, identity,
                       state_id, require_conditional_stop)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
                   ON CONFLICT (id) DO UPDATE SET url = excluded.url, token_file = excluded.token_file,
                       require_conditional_stop = excluded.require_conditional_stop";
        let query = sqlx::query(sql)
            .bind(runner.id.as_str())
            .bind(&runner.url)
            .bind(&runner.token_file)
            .bind(runner.created_at.0)
            .bind(runner.last_seen_at.map(|t| t.0))
            .bind(runner.epoch)
            .bind(runner.protocol)
            .bind(&runner.identity)
            .bind(&runner.state_id)
            .bind(i64::from(runner.require_conditional_stop));
        query.execute(self.writer()).await.at(self)?;
        Ok(())
    }

    /// Removes a runner; false when it was not enrolled. Its sessions stay.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn remove_runner(&self, id: &Id) -> Result<bool, StoreError> {
        let query = sqlx::query("DELETE FROM runners WHERE id = $1").bind(id.as_str());
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Forgets identity, state folder, epoch and protocol of a runner, so that what answers next is accepted; false when
    /// it is not enrolled.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn reset_runner(&self, id: &Id) -> Result<bool, StoreError> {
        let sql = "UPDATE runners SET identity = NULL, state_id = NULL, epoch = NULL, protocol = NULL WHERE id = $1";
        let query = sqlx::query(sql).bind(id.as_str());
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Sets whether every stop on a runner must carry a condition that it checks itself; false when it is not enrolled.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_require_conditional_stop(&self, id: &Id, required: bool) -> Result<bool, StoreError> {
        let sql = "UPDATE runners SET require_conditional_stop = $2 WHERE id = $1";
        let query = sqlx::query(sql).bind(id.as_str()).bind(i64::from(required));
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Lists the enrolled runners in the order of their ids.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_runners(&self) -> Result<Vec<Runner>, StoreError> {
        let sql = select_runners!("ORDER BY id");
        self.read_all(sqlx::query_as::<_, RunnerRow>(sql).fetch_all(self.reader()).await)
    }

    /// Finds an enrolled runner.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_runner(&self, id: &Id) -> Result<Option<Runner>, StoreError> {
        let sql = select_runners!("WHERE id = $1");
        self.read_one(sqlx::query_as::<_, RunnerRow>(sql).bind(id.as_str()).fetch_optional(self.reader()).await)
    }

    /// Notes that a connection to a runner succeeded, to the second, forward only.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn record_seen(&self, id: &Id, now: UtcMs) -> Result<(), StoreError> {
        let sql = "UPDATE runners SET last_seen_at = $2
                   WHERE id = $1 AND (last_seen_at IS NULL OR last_seen_at <= $3)";
        let query = sqlx::query(sql).bind(id.as_str()).bind(now.0).bind(now.minus(SEEN_EVERY_MS).0);
        query.execute(self.writer()).await.at(self)?;
        Ok(())
    }

    /// Remembers what an accepted answer tells, and that a connection succeeded. Where another identity or
    /// state folder is remembered, nothing is written: that answer should not have been accepted.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn remember_runner(&self, id: &Id, memory: RunnerMemory, now: UtcMs) -> Result<(), StoreError> {
        let sql = "UPDATE runners SET
                identity = COALESCE(identity, $2),
                state_id = COALESCE(state_id, $7),
                epoch = CASE WHEN epoch >= $3 THEN epoch ELSE COALESCE($3, epoch) END,
                protocol = CASE WHEN protocol >= $4 THEN protocol ELSE COALESCE($4, protocol) END,
                last_seen_at = CASE WHEN last_seen_at >= $5 THEN last_seen_at ELSE $5 END
            WHERE id = $1 AND (identity IS NULL OR identity = COALESCE($2, identity))
                AND (state_id IS NULL OR state_id = COALESCE($7, state_id))
                AND (last_seen_at IS NULL OR last_seen_at <= $6 OR (identity IS NULL AND $2 IS NOT NULL)
                    OR (state_id IS NULL AND $7 IS NOT NULL)
                    OR COALESCE(epoch, -1) < $3 OR COALESCE(protocol, -1) < $4)";
        let query = sqlx::query(sql)
            .bind(id.as_str())
            .bind(memory.identity)
            .bind(memory.epoch)
            .bind(memory.protocol)
            .bind(now.0)
            .bind(now.minus(SEEN_EVERY_MS).0)
            .bind(memory.state_id);
        query.execute(self.writer()).await.at(self)?;
        Ok(())
    }
}
