//! Runs: delegated pieces of work, their heartbeats and their end.

use crate::entry::NewEntry;
use crate::session::{Id, Run, RunStatus, Session};
use crate::store::error::At;
use crate::store::rows::{RunRow, SessionRow, session_columns};
use crate::store::sweeps::{SweepItem, insert_item};
use crate::store::timeline::write_entry;
use crate::store::{Store, StoreError};
use crate::time::UtcMs;

macro_rules! select_runs {
    ($rest:literal) => {
        concat!(
            "SELECT id, session_id, status, opened_session, started_at, heartbeat_at, finished_at FROM runs ",
            $rest
        )
    };
}

pub(super) const STALE: &str = select_runs!(
    "WHERE status = 'running' AND COALESCE(heartbeat_at, started_at) <= $1
     ORDER BY COALESCE(heartbeat_at, started_at), id LIMIT $2"
);

impl Store {
    /// Inserts a run; false when there is one of that id already.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn insert_run(&self, run: &Run) -> Result<bool, StoreError> {
        let sql = "INSERT INTO runs (id, session_id, status, opened_session, started_at, heartbeat_at, finished_at)
                   VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
        let query = sqlx::query(sql)
            .bind(run.id.as_str())
            .bind(run.session_id.as_str())
            .bind(run.status.as_str())
            .bind(i64::from(run.opened_session))
            .bind(run.started_at.0)
            .bind(run.heartbeat_at.map(|t| t.0))
            .bind(run.finished_at.map(|t| t.0));
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Finds a run by its id.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_run(&self, id: &Id) -> Result<Option<Run>, StoreError> {
        let sql = select_runs!("WHERE id = $1");
        self.read_one(sqlx::query_as::<_, RunRow>(sql).bind(id.as_str()).fetch_optional(self.reader()).await)
    }

    /// Finds the session of a run, in one question whether there is such a run or not.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_session_of_run(&self, id: &Id) -> Result<Option<Session>, StoreError> {
        let sql = concat!(
            "SELECT ",
            session_columns!(),
            " FROM sessions WHERE id = (SELECT session_id FROM runs WHERE runs.id = $1)"
        );
        self.read_one(sqlx::query_as::<_, SessionRow>(sql).bind(id.as_str()).fetch_optional(self.reader()).await)
    }

    /// Lists the runs of a session, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_runs(&self, session: &Id) -> Result<Vec<Run>, StoreError> {
        let sql = select_runs!("WHERE session_id = $1 ORDER BY started_at, id");
        self.read_all(sqlx::query_as::<_, RunRow>(sql).bind(session.as_str()).fetch_all(self.reader()).await)
    }

    /// Notes a run's heartbeat, forward only; false when it is not running.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn beat_run(&self, id: &Id, at: UtcMs) -> Result<bool, StoreError> {
        let sql = "UPDATE runs SET heartbeat_at = CASE WHEN heartbeat_at > $2 THEN heartbeat_at ELSE $2 END
                   WHERE id = $1 AND status = 'running'";
        let query = sqlx::query(sql).bind(id.as_str()).bind(at.0);
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Finishes a run that is running, or was taken for stale too soon; false when it has finished otherwise.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn finish_run(&self, id: &Id, status: RunStatus, at: UtcMs) -> Result<bool, StoreError> {
        let sql = "UPDATE runs SET status = $2, finished_at = $3 WHERE id = $1 AND status IN ('running', 'stale')";
        let query = sqlx::query(sql).bind(id.as_str()).bind(status.as_str()).bind(at.0);
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Lists runs that are `running` and gave no heartbeat after `cutoff`: the longest silent first, `limit` at most.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_stale_runs(&self, cutoff: UtcMs, limit: u32) -> Result<Vec<Run>, StoreError> {
        let query = sqlx::query_as::<_, RunRow>(STALE).bind(cutoff.0).bind(i64::from(limit));
        self.read_all(query.fetch_all(self.reader()).await)
    }

    /// Marks a run stale, with its entry and sweep item, in one transaction; false when it beat or finished meanwhile,
    /// and nothing was written. Its session is not touched.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn mark_stale(
        &self,
        run: &Run,
        cutoff: UtcMs,
        entry: &NewEntry,
        item: Option<&SweepItem>,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE runs SET status = 'stale'
                   WHERE id = $1 AND status = 'running' AND COALESCE(heartbeat_at, started_at) <= $2";
        let mut tx = self.begin().await?;
        let query = sqlx::query(sql).bind(run.id.as_str()).bind(cutoff.0);
        if query.execute(&mut *tx).await.at(self)?.rows_affected() == 0 {
            return Ok(false);
        }
        write_entry(&mut tx, entry, Some(format!("stale:{}", run.id)), false).await.at(self)?;
        if let Some(item) = item {
            insert_item(&mut tx, item).await.at(self)?;
        }
        tx.commit().await.at(self)?;
        Ok(true)
    }
}
