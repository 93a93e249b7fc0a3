//! Runs: delegated pieces of work, their heartbeats and their end.

use sqlx::{QueryBuilder, Sqlite};

use crate::entry::NewEntry;
use crate::session::{Id, Run, RunStatus, Session};
use crate::store::error::At;
use crate::store::rows::{RunRow, SessionRow, session_columns};
use crate::store::sweeps::{SweepItem, insert_item};
use crate::store::timeline::{insert_entry, write_entry};
use crate::store::{Conn, Store, StoreError};
use crate::time::UtcMs;

macro_rules! select_runs {
    ($rest:literal) => {
        concat!(
            "SELECT id, session_id, status, opened_session, started_at, heartbeat_at, finished_at, stale_at, result
             FROM runs ",
            $rest
        )
    };
}

pub(super) const STALE: &str = select_runs!(
    "WHERE status = 'running' AND COALESCE(heartbeat_at, started_at) <= $1
     ORDER BY COALESCE(heartbeat_at, started_at), id LIMIT $2"
);

/// Finds the run of an id in any session of the owner whose session is named.
const OF_SAME_OWNER: &str = select_runs!(
    "WHERE id = $1 AND session_id IN (SELECT id FROM sessions WHERE COALESCE(owner_id, '') = COALESCE(
         (SELECT owner_id FROM sessions WHERE id = $2), ''))"
);

/// Who names a run by its id alone: ids are each owner's own.
#[derive(Debug, Clone, Copy)]
pub struct RunNamer<'a> {
    /// Whose runs are meant first of all.
    pub owner: &'a str,
    /// Those in sessions without an owner too.
    pub ownerless_too: bool,
    /// Where there is none of theirs, everybody's.
    pub others_too: bool,
}

/// Which runs to list, in the order of their ids, and of their sessions' where owners have the same.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only in sessions of this owner.
    pub owner: Option<String>,
    /// With `owner`: in sessions without an owner too.
    pub ownerless_too: bool,
    /// Only in this session.
    pub session: Option<Id>,
    /// Only those that stand like this.
    pub status: Option<RunStatus>,
    /// Only those behind this one, by its id and its session's: the last of the page before.
    pub after: Option<(Id, Id)>,
    /// At most so many; none means all.
    pub limit: Option<u32>,
}

/// What came of beginning a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunBegun {
    /// The run stands, and its entry.
    Done,
    /// The owner has one of that id; nothing was written but that it opened its session, where this call did.
    Taken(Box<Run>),
}

impl Store {
    /// Inserts a run with the entry that tells of its beginning, in one transaction.
    ///
    /// Of two begins of one id in one session at once, one may have opened the session and the other been first here: the
    /// run has opened it all the same.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn begin_run(&self, run: &Run, entry: &NewEntry) -> Result<RunBegun, StoreError> {
        let mut tx = self.begin().await?;
        let query = sqlx::query_as::<_, RunRow>(OF_SAME_OWNER).bind(run.id.as_str()).bind(run.session_id.as_str());
        let Some(mut there) = self.read_one(query.fetch_optional(&mut *tx).await)? else {
            insert(&mut tx, run).await.at(self)?;
            insert_entry(&mut tx, entry).await.at(self)?;
            tx.commit().await.at(self)?;
            return Ok(RunBegun::Done);
        };
        if run.opened_session && there.session_id == run.session_id && there.status == RunStatus::Running {
            let sql = "UPDATE runs SET opened_session = 1 WHERE id = $1 AND session_id = $2";
            let query = sqlx::query(sql).bind(run.id.as_str()).bind(run.session_id.as_str());
            query.execute(&mut *tx).await.at(self)?;
            there.opened_session = true;
        }
        tx.commit().await.at(self)?;
        Ok(RunBegun::Taken(Box::new(there)))
    }

    /// Finds a run of a session by its id.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_run(&self, session: &Id, id: &Id) -> Result<Option<Run>, StoreError> {
        let sql = select_runs!("WHERE id = $1 AND session_id = $2");
        let query = sqlx::query_as::<_, RunRow>(sql).bind(id.as_str()).bind(session.as_str());
        self.read_one(query.fetch_optional(self.reader()).await)
    }

    /// Finds the session of a run as somebody names it, in one question whether there is such a run or not: theirs, else all
    /// others' that are meant, two at the most.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_sessions_of_run(&self, id: &Id, by: RunNamer<'_>) -> Result<Vec<Session>, StoreError> {
        let sql = concat!(
            "SELECT ",
            session_columns!(),
            " FROM sessions WHERE id IN (SELECT session_id FROM runs WHERE runs.id = $1) \
             AND ($4 OR owner_id = $2 OR ($3 AND owner_id IS NULL)) \
             ORDER BY COALESCE(owner_id = $2, $3) DESC, owner_id IS NULL, id LIMIT 2"
        );
        let query = sqlx::query_as::<_, SessionRow>(sql)
            .bind(id.as_str())
            .bind(by.owner.to_owned())
            .bind(by.ownerless_too)
            .bind(by.others_too);
        let mut found = self.read_all(query.fetch_all(self.reader()).await)?;
        let is_theirs = |session: &Session| session.owner_id.as_deref().map_or(by.ownerless_too, |it| it == by.owner);
        if found.first().is_some_and(is_theirs) {
            found.truncate(1);
        }
        Ok(found)
    }

    /// Lists the runs of a session with what they reported, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_runs(&self, session: &Id) -> Result<Vec<Run>, StoreError> {
        let sql = select_runs!("WHERE session_id = $1 ORDER BY started_at, id");
        self.read_all(sqlx::query_as::<_, RunRow>(sql).bind(session.as_str()).fetch_all(self.reader()).await)
    }

    /// Lists runs without what they reported, which may be long.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_runs_of(&self, filter: &RunFilter) -> Result<Vec<Run>, StoreError> {
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new(
            "SELECT id, session_id, status, opened_session, started_at, heartbeat_at, finished_at, stale_at,
                 NULL AS result FROM runs WHERE 1 = 1",
        );
        if let Some(owner) = &filter.owner {
            sql.push(" AND session_id IN (SELECT id FROM sessions WHERE owner_id = ").push_bind(owner.clone());
            sql.push(if filter.ownerless_too { " OR owner_id IS NULL)" } else { ")" });
        }
        if let Some(session) = &filter.session {
            sql.push(" AND session_id = ").push_bind(session.as_str());
        }
        if let Some(status) = filter.status {
            sql.push(" AND status = ").push_bind(status.as_str());
        }
        if let Some((id, session)) = &filter.after {
            sql.push(" AND (id, session_id) > (").push_bind(id.as_str());
            sql.push(", ").push_bind(session.as_str()).push(")");
        }
        sql.push(" ORDER BY id, session_id LIMIT ").push_bind(i64::from(filter.limit.unwrap_or(u32::MAX)));
        self.read_all(sql.build_query_as::<RunRow>().fetch_all(self.reader()).await)
    }

    /// Notes a run's heartbeat, forward only; one that was called stale is running again. False when it has finished, or
    /// there is none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn beat_run(&self, run: &Run, at: UtcMs) -> Result<bool, StoreError> {
        let sql = "UPDATE runs SET heartbeat_at = CASE WHEN heartbeat_at > $2 THEN heartbeat_at ELSE $2 END,
                       status = 'running', stale_at = NULL
                   WHERE id = $1 AND session_id = $3 AND status IN ('running', 'stale')";
        let query = sqlx::query(sql).bind(run.id.as_str()).bind(at.0).bind(run.session_id.as_str());
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Finishes a run, with what it reported and with its entry, in one transaction; false when it does not stand as it
    /// was read, and nothing was written. One that was called stale is finished all the same, and keeps since when.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn finish_run(
        &self,
        read: &Run,
        (status, result): (RunStatus, Option<&str>),
        at: UtcMs,
        entry: &NewEntry,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE runs SET status = $3, result = $4, finished_at = $5,
                       stale_at = CASE WHEN status = 'stale' THEN COALESCE(stale_at, $5) ELSE NULL END
                   WHERE id = $1 AND session_id = $6 AND status = $2 AND status IN ('running', 'stale')";
        let mut tx = self.begin().await?;
        let query = sqlx::query(sql)
            .bind(read.id.as_str())
            .bind(read.status.as_str())
            .bind(status.as_str())
            .bind(result.map(str::to_owned))
            .bind(at.0)
            .bind(read.session_id.as_str());
        if query.execute(&mut *tx).await.at(self)?.rows_affected() == 0 {
            return Ok(false);
        }
        insert_entry(&mut tx, entry).await.at(self)?;
        tx.commit().await.at(self)?;
        Ok(true)
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
        let sql = "UPDATE runs SET status = 'stale', stale_at = $3
                   WHERE id = $1 AND session_id = $4 AND status = 'running' AND COALESCE(heartbeat_at, started_at) <= $2";
        let mut tx = self.begin().await?;
        let query =
            sqlx::query(sql).bind(run.id.as_str()).bind(cutoff.0).bind(entry.at.0).bind(run.session_id.as_str());
        if query.execute(&mut *tx).await.at(self)?.rows_affected() == 0 {
            return Ok(false);
        }
        write_entry(&mut tx, entry, Some(stale_once(run)), false).await.at(self)?;
        if let Some(item) = item {
            insert_item(&mut tx, item).await.at(self)?;
        }
        tx.commit().await.at(self)?;
        Ok(true)
    }
}

/// Each silence of a run is told once: one that went on and fell silent again is told again.
fn stale_once(run: &Run) -> String {
    match run.heartbeat_at {
        Some(at) => format!("stale:{}:{}", run.id, at.0),
        None => format!("stale:{}", run.id),
    }
}

async fn insert(tx: &mut Conn, run: &Run) -> Result<(), sqlx::Error> {
    let sql = "INSERT INTO runs (id, session_id, status, opened_session, started_at, heartbeat_at, finished_at,
                   stale_at, result)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let query = sqlx::query(sql)
        .bind(run.id.as_str().to_owned())
        .bind(run.session_id.as_str().to_owned())
        .bind(run.status.as_str())
        .bind(i64::from(run.opened_session))
        .bind(run.started_at.0)
        .bind(run.heartbeat_at.map(|t| t.0))
        .bind(run.finished_at.map(|t| t.0))
        .bind(run.stale_at.map(|t| t.0))
        .bind(run.result.clone());
    query.execute(tx).await.map(drop)
}
