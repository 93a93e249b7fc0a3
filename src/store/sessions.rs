//! Session rows: finding, listing, opening, starting again. Closing is in `close.rs`.

use sqlx::{QueryBuilder, Sqlite};

use crate::session::{Id, Session, Status};
use crate::store::error::At;
use crate::store::rows::{SessionRow, session_columns};
use crate::store::{Conn, Store, StoreError};
use crate::time::UtcMs;

/// Which sessions to list, in the order of their ids.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Only this owner's.
    pub owner: Option<String>,
    /// With `owner`: rows without an owner too.
    pub ownerless_too: bool,
    /// Only rows that are not ended.
    pub open_only: bool,
    /// Only this runner's.
    pub runner: Option<Id>,
    /// Only in exactly this repo.
    pub repo: Option<String>,
    /// Only with this engine.
    pub engine: Option<String>,
    /// Only those that stand like this.
    pub status: Option<Status>,
    /// Only ids behind this one: the last of the page before.
    pub after: Option<Id>,
    /// At most so many; none means all.
    pub limit: Option<u32>,
}

/// What came of inserting a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    /// The row stands, and its entry.
    Done,
    /// The owner has another open session in that repo; nothing was written.
    Taken(Box<Session>),
}

/// What came of starting a session's engine anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// The row as it stands now, of the next generation.
    Done(Box<Session>),
    /// The owner has another open session in that repo; nothing was written.
    Taken(Box<Session>),
    /// The row is of another generation by now, or gone; nothing was written.
    LostRace,
}

impl Store {
    /// Finds a session by its id.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_session(&self, id: &Id) -> Result<Option<Session>, StoreError> {
        let sql = concat!("SELECT ", session_columns!(), " FROM sessions WHERE id = $1");
        self.read_one(sqlx::query_as::<_, SessionRow>(sql).bind(id.as_str()).fetch_optional(self.reader()).await)
    }

    /// Finds those of the sessions that there are.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_sessions(&self, ids: &[Id]) -> Result<Vec<Session>, StoreError> {
        // sqlite: json_each.
        let sql = concat!(
            "SELECT ",
            session_columns!(),
            " FROM sessions WHERE id IN (SELECT value FROM json_each($1)) ORDER BY id"
        );
        self.read_all(sqlx::query_as::<_, SessionRow>(sql).bind(json_ids(ids)).fetch_all(self.reader()).await)
    }

    /// Finds the open session of an owner in a repo; there is at most one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_open_session(&self, owner: Option<&str>, repo: &str) -> Result<Option<Session>, StoreError> {
        self.read_one(open_session(owner, repo).fetch_optional(self.reader()).await)
    }

    /// Finds the session of an engine's own id: an open one before one that has ended, the newest of several. With an owner
    /// only theirs, and with the second of the pair set, those without an owner too.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_engine_session(
        &self,
        engine_session_id: &str,
        owner: Option<(&str, bool)>,
    ) -> Result<Option<Session>, StoreError> {
        let (owner, ownerless_too) = owner.unzip();
        let query = sqlx::query_as::<_, SessionRow>(BY_ENGINE_SESSION)
            .bind(engine_session_id.to_owned())
            .bind(owner.map(str::to_owned))
            .bind(ownerless_too.unwrap_or(true));
        self.read_one(query.fetch_optional(self.reader()).await)
    }

    /// Finds the session of an owner in a repo that was last closed as `machine_gone`: its engine may still be there.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_newest_gone(&self, owner: Option<&str>, repo: &str) -> Result<Option<Session>, StoreError> {
        let sql = concat!(
            "SELECT ",
            session_columns!(),
            " FROM sessions WHERE COALESCE(owner_id, '') = COALESCE($1, '') AND repo = $2 AND status = 'ended' \
             AND end_reason = 'machine_gone' ORDER BY ended_at DESC LIMIT 1"
        );
        let query = sqlx::query_as::<_, SessionRow>(sql).bind(owner.map(str::to_owned)).bind(repo.to_owned());
        self.read_one(query.fetch_optional(self.reader()).await)
    }

    /// Lists sessions.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError> {
        let mut sql = QueryBuilder::new(concat!("SELECT ", session_columns!(), " FROM sessions WHERE 1 = 1"));
        narrow(&mut sql, filter);
        sql.push(" ORDER BY id LIMIT ").push_bind(i64::from(filter.limit.unwrap_or(u32::MAX)));
        self.read_all(sql.build_query_as::<SessionRow>().fetch_all(self.reader()).await)
    }

    /// Turns a `starting` row of that generation `active`; false when it is none. `attached_at` stays: it says when the
    /// start began.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn mark_active(&self, id: &Id, generation: i64, at: UtcMs) -> Result<bool, StoreError> {
        let sql = "UPDATE sessions SET status = 'active', updated_at = $3
                   WHERE id = $1 AND generation = $2 AND status = 'starting'";
        let query = sqlx::query(sql).bind(id.as_str()).bind(generation).bind(at.0);
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Lifts an open row from generation `from` to the one behind `above`, the highest that its runner knows; returns
    /// the new generation, or none when the row is not open, of another generation, or above it already.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn jump_generation(&self, id: &Id, from: i64, above: i64) -> Result<Option<i64>, StoreError> {
        let sql = "UPDATE sessions SET generation = $3 + 1, reopened = 0
                   WHERE id = $1 AND generation = $2 AND generation <= $3 AND status <> 'ended'";
        let query = sqlx::query(sql).bind(id.as_str()).bind(from).bind(above);
        let done = query.execute(self.writer()).await.at(self)?;
        Ok((done.rows_affected() == 1).then_some(above + 1))
    }

    /// Gives the rows without an owner to `owner`; returns how many. An open one stays without where the owner has an
    /// open session in that repo already.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn adopt_ownerless(&self, owner: &str) -> Result<u64, StoreError> {
        let sql = "UPDATE sessions SET owner_id = $1
                   WHERE owner_id IS NULL AND (status = 'ended' OR NOT EXISTS
                       (SELECT 1 FROM sessions AS other WHERE COALESCE(other.owner_id, '') = $1
                            AND other.repo = sessions.repo AND other.status <> 'ended'))";
        let query = sqlx::query(sql).bind(owner.to_owned());
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected())
    }

    /// Lists the open rows without an owner.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_ownerless(&self) -> Result<Vec<Session>, StoreError> {
        let sql = concat!(
            "SELECT ",
            session_columns!(),
            " FROM sessions WHERE owner_id IS NULL AND status <> 'ended' ORDER BY id"
        );
        self.read_all(sqlx::query_as::<_, SessionRow>(sql).fetch_all(self.reader()).await)
    }
}

/// Adds what the filter asks of a row. Built, so that each combination can use its own index.
pub(super) fn narrow(sql: &mut QueryBuilder<Sqlite>, filter: &SessionFilter) {
    if let Some(owner) = &filter.owner {
        sql.push(" AND (owner_id = ").push_bind(owner.clone());
        sql.push(if filter.ownerless_too { " OR owner_id IS NULL)" } else { ")" });
    }
    if filter.open_only {
        sql.push(" AND status <> 'ended'");
    }
    if let Some(runner) = &filter.runner {
        sql.push(" AND runner_id = ").push_bind(runner.as_str());
    }
    if let Some(repo) = &filter.repo {
        sql.push(" AND repo = ").push_bind(repo.clone());
    }
    if let Some(engine) = &filter.engine {
        sql.push(" AND engine = ").push_bind(engine.clone());
    }
    if let Some(status) = filter.status {
        sql.push(" AND status = ").push_bind(status.as_str());
    }
    if let Some(after) = &filter.after {
        sql.push(" AND id > ").push_bind(after.as_str());
    }
}

pub(super) const BY_ENGINE_SESSION: &str = concat!(
    "SELECT ",
    session_columns!(),
    " FROM sessions WHERE engine_session_id = $1 AND ($2 IS NULL OR owner_id = $2 OR ($3 AND owner_id IS NULL)) \
     ORDER BY status = 'ended', started_at DESC, id DESC LIMIT 1"
);

pub(super) type SessionQuery = sqlx::query::QueryAs<'static, Sqlite, SessionRow, sqlx::sqlite::SqliteArguments>;

pub(super) fn open_session(owner: Option<&str>, repo: &str) -> SessionQuery {
    let sql = concat!(
        "SELECT ",
        session_columns!(),
        " FROM sessions WHERE COALESCE(owner_id, '') = COALESCE($1, '') AND repo = $2 AND status <> 'ended'"
    );
    sqlx::query_as(sql).bind(owner.map(str::to_owned)).bind(repo.to_owned())
}

/// Inserts a row; false when its id, or the owner's place in that repo, is taken.
pub(super) async fn insert_row(tx: &mut Conn, row: &Session) -> Result<bool, sqlx::Error> {
    let sql = concat!(
        "INSERT INTO sessions (",
        session_columns!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, \
         $22) ON CONFLICT DO NOTHING"
    );
    let done = sqlx::query(sql)
        .bind(row.id.as_str().to_owned())
        .bind(row.runner_id.as_str().to_owned())
        .bind(row.owner_id.clone())
        .bind(row.repo.clone())
        .bind(row.engine.clone())
        .bind(row.engine_session_id.clone())
        .bind(row.status.as_str())
        .bind(row.generation)
        .bind(row.reopened)
        .bind(row.started_at.map(|t| t.0))
        .bind(row.attached_at.map(|t| t.0))
        .bind(row.updated_at.map(|t| t.0))
        .bind(row.last_activity_at.map(|t| t.0))
        .bind(row.last_activity_kind.map(|kind| kind.as_str()))
        .bind(row.driver.clone())
        .bind(row.driver_at.map(|t| t.0))
        .bind(row.keep_until.map(|t| t.0))
        .bind(row.keep_reason.clone())
        .bind(row.idle_after_ms)
        .bind(row.next_check_at.map(|t| t.0))
        .bind(row.ended_at.map(|t| t.0))
        .bind(row.end_reason.clone())
        .execute(tx)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Writes ids as the one argument of a statement about many.
pub(super) fn json_ids<'a>(ids: impl IntoIterator<Item = &'a Id>) -> String {
    // Ids consist of letters, digits, "_" and "-", so nothing in them needs escaping.
    let mut text = String::from("[");
    for id in ids {
        if text.len() > 1 {
            text.push(',');
        }
        text.push('"');
        text.push_str(id.as_str());
        text.push('"');
    }
    text.push(']');
    text
}
