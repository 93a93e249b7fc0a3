//! Rows as they lie in the tables, and their way into the plain types; a value that does not fit is refused by name.

use std::str::FromStr;

use sqlx::FromRow;

use crate::entry::Entry;
use crate::session::{Id, Run, Runner, Session};
use crate::store::error::{At, BadRow};
use crate::store::{Store, StoreError};
use crate::time::UtcMs;

/// The columns of [`SessionRow`], for `concat!`.
macro_rules! session_columns {
    () => {
        "id, runner_id, owner_id, repo, engine, engine_session_id, status, generation, reopened, started_at, \
         attached_at, updated_at, last_activity_at, last_activity_kind, driver, driver_at, keep_until, keep_reason, \
         idle_after_ms, next_check_at, ended_at, end_reason"
    };
}
pub(super) use session_columns;

/// A row that has a plain type.
pub(super) trait Plain {
    type Value;

    fn plain(self) -> Result<Self::Value, BadRow>;
}

impl Store {
    /// Reads the rows of an answer.
    pub(super) fn read_all<R: Plain>(&self, rows: Result<Vec<R>, sqlx::Error>) -> Result<Vec<R::Value>, StoreError> {
        rows.at(self)?.into_iter().map(Plain::plain).collect::<Result<_, _>>().at(self)
    }

    /// Reads the row of an answer that has at most one.
    pub(super) fn read_one<R: Plain>(
        &self,
        row: Result<Option<R>, sqlx::Error>,
    ) -> Result<Option<R::Value>, StoreError> {
        row.at(self)?.map(Plain::plain).transpose().at(self)
    }

    /// Reads an answer that consists of ids.
    pub(super) fn read_ids(&self, ids: &[String]) -> Result<Vec<Id>, StoreError> {
        ids.iter().map(|id| id.parse().map_err(BadRow)).collect::<Result<_, _>>().at(self)
    }
}

pub(super) fn word<T: FromStr<Err = String>>(column: &str, text: &str) -> Result<T, BadRow> {
    text.parse().map_err(|why| BadRow(format!("in column {column}, {why}")))
}

pub(super) fn json(column: &str, text: &str) -> Result<serde_json::Value, BadRow> {
    serde_json::from_str(text).map_err(|why| BadRow(format!("in column {column}, {why}")))
}

#[derive(FromRow)]
pub(super) struct SessionRow {
    id: String,
    runner_id: String,
    owner_id: Option<String>,
    repo: String,
    engine: String,
    engine_session_id: Option<String>,
    status: String,
    generation: i64,
    reopened: i64,
    started_at: Option<i64>,
    attached_at: Option<i64>,
    updated_at: Option<i64>,
    last_activity_at: Option<i64>,
    last_activity_kind: Option<String>,
    driver: Option<String>,
    driver_at: Option<i64>,
    keep_until: Option<i64>,
    keep_reason: Option<String>,
    idle_after_ms: Option<i64>,
    next_check_at: Option<i64>,
    ended_at: Option<i64>,
    end_reason: Option<String>,
}

impl Plain for SessionRow {
    type Value = Session;

    fn plain(self) -> Result<Session, BadRow> {
        Ok(Session {
            id: word("id", &self.id)?,
            runner_id: word("runner_id", &self.runner_id)?,
            owner_id: self.owner_id,
            repo: self.repo,
            engine: self.engine,
            engine_session_id: self.engine_session_id,
            status: word("status", &self.status)?,
            generation: self.generation,
            reopened: self.reopened,
            started_at: self.started_at.map(UtcMs),
            attached_at: self.attached_at.map(UtcMs),
            updated_at: self.updated_at.map(UtcMs),
            last_activity_at: self.last_activity_at.map(UtcMs),
            last_activity_kind: self.last_activity_kind.map(|kind| word("last_activity_kind", &kind)).transpose()?,
            driver: self.driver,
            driver_at: self.driver_at.map(UtcMs),
            keep_until: self.keep_until.map(UtcMs),
            keep_reason: self.keep_reason,
            idle_after_ms: self.idle_after_ms,
            next_check_at: self.next_check_at.map(UtcMs),
            ended_at: self.ended_at.map(UtcMs),
            end_reason: self.end_reason,
        })
    }
}

#[derive(FromRow)]
pub(super) struct RunRow {
    id: String,
    session_id: String,
    status: String,
    opened_session: i64,
    started_at: i64,
    heartbeat_at: Option<i64>,
    finished_at: Option<i64>,
    stale_at: Option<i64>,
    result: Option<String>,
}

impl Plain for RunRow {
    type Value = Run;

    fn plain(self) -> Result<Run, BadRow> {
        Ok(Run {
            id: word("id", &self.id)?,
            session_id: word("session_id", &self.session_id)?,
            status: word("status", &self.status)?,
            opened_session: self.opened_session != 0,
            started_at: UtcMs(self.started_at),
            heartbeat_at: self.heartbeat_at.map(UtcMs),
            finished_at: self.finished_at.map(UtcMs),
            stale_at: self.stale_at.map(UtcMs),
            result: self.result,
        })
    }
}

#[derive(FromRow)]
pub(super) struct RunnerRow {
    id: String,
    url: String,
    token_file: Option<String>,
    created_at: i64,
    last_seen_at: Option<i64>,
    epoch: Option<i64>,
    protocol: Option<i64>,
    identity: Option<String>,
    state_id: Option<String>,
    require_conditional_stop: i64,
}

impl Plain for RunnerRow {
    type Value = Runner;

    fn plain(self) -> Result<Runner, BadRow> {
        Ok(Runner {
            id: word("id", &self.id)?,
            url: self.url,
            token_file: self.token_file,
            created_at: UtcMs(self.created_at),
            last_seen_at: self.last_seen_at.map(UtcMs),
            epoch: self.epoch,
            protocol: self.protocol,
            identity: self.identity,
            state_id: self.state_id,
            require_conditional_stop: self.require_conditional_stop != 0,
        })
    }
}

#[derive(FromRow)]
pub(super) struct EntryRow {
    id: String,
    session_id: String,
    generation: i64,
    at: i64,
    kind: String,
    actor: String,
    reason: Option<String>,
    message: String,
    evidence: String,
}

impl Plain for EntryRow {
    type Value = Entry;

    fn plain(self) -> Result<Entry, BadRow> {
        Ok(Entry {
            id: word("id", &self.id)?,
            session_id: word("session_id", &self.session_id)?,
            generation: self.generation,
            at: UtcMs(self.at),
            kind: word("kind", &self.kind)?,
            actor: self.actor,
            reason: self.reason,
            message: self.message,
            evidence: json("evidence", &self.evidence)?,
        })
    }
}
