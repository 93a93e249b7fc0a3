//! Timeline entries: writing and listing. What they say is made elsewhere.

use sqlx::{QueryBuilder, Sqlite};

use crate::entry::{Entry, NewEntry};
use crate::session::Id;
use crate::store::error::At;
use crate::store::events::select_head;
use crate::store::rows::EntryRow;
use crate::store::{Conn, Store, StoreError};
use crate::time::UtcMs;

/// Which entries to list, in the order of their time.
#[derive(Debug, Clone, Default)]
pub struct EntryFilter {
    /// Only of this session.
    pub session: Option<Id>,
    /// Only of sessions of this owner.
    pub owner: Option<String>,
    /// Only what comes behind this entry in the order asked for: time and id of the last of the page before.
    pub after: Option<(UtcMs, Id)>,
    /// The newest first.
    pub newest_first: bool,
    /// At most so many; none means all.
    pub limit: Option<u32>,
}

impl Store {
    /// Adds an entry; false when the session has one under the same `once` already, and nothing was written.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn add_entry(&self, entry: &NewEntry) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let added = insert_entry(&mut tx, entry).await.at(self)?;
        tx.commit().await.at(self)?;
        Ok(added)
    }

    /// Returns whether the session has an entry under this `once`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn has_entry(&self, session: &Id, once: &str) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM timeline WHERE session_id = $1 AND once = $2)";
        let query = sqlx::query_scalar(sql).bind(session.as_str()).bind(once);
        query.fetch_one(self.reader()).await.at(self)
    }

    /// Lists entries.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_timeline(&self, filter: &EntryFilter) -> Result<Vec<Entry>, StoreError> {
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new(
            "SELECT id, session_id, generation, at, kind, actor, reason, message, evidence FROM timeline WHERE 1 = 1",
        );
        if let Some(session) = &filter.session {
            sql.push(" AND session_id = ").push_bind(session.as_str());
        }
        if let Some(owner) = &filter.owner {
            sql.push(" AND session_id IN (SELECT id FROM sessions WHERE owner_id = ")
                .push_bind(owner.clone())
                .push(")");
        }
        if let Some((at, id)) = &filter.after {
            sql.push(if filter.newest_first { " AND (at, id) < (" } else { " AND (at, id) > (" });
            sql.push_bind(at.0).push(", ").push_bind(id.as_str()).push(")");
        }
        sql.push(if filter.newest_first { " ORDER BY at DESC, id DESC" } else { " ORDER BY at, id" });
        sql.push(" LIMIT ").push_bind(i64::from(filter.limit.unwrap_or(u32::MAX)));
        self.read_all(sql.build_query_as::<EntryRow>().fetch_all(self.reader()).await)
    }
}

pub(super) const INSERT: &str = concat!(
    "INSERT INTO timeline
        (id, session_id, generation, at, kind, actor, reason, message, evidence, once, engine_gone, seq)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1 + (",
    select_head!(),
    ")) ON CONFLICT DO NOTHING"
);

/// Inserts an entry as it is; false when its `once` is taken, or when it says that an engine is gone of which another
/// entry says so already.
pub(super) async fn insert_entry(tx: &mut Conn, entry: &NewEntry) -> Result<bool, sqlx::Error> {
    write_entry(tx, entry, entry.once.clone(), entry.engine_gone).await
}

/// Inserts an entry under another `once` and `engine_gone` than its own; false as with [`insert_entry`].
///
/// The one place that inserts entries, and so the one that gives them their `seq`: one above the highest there
/// ever was, which is the order of commits since a transaction that writes is alone.
pub(super) async fn write_entry(
    tx: &mut Conn,
    entry: &NewEntry,
    once: Option<String>,
    engine_gone: bool,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query(INSERT)
        .bind(Id::new().to_string())
        .bind(entry.session_id.as_str().to_owned())
        .bind(entry.generation)
        .bind(entry.at.0)
        .bind(entry.kind.as_str())
        .bind(entry.actor.clone())
        .bind(entry.reason.clone())
        .bind(entry.message.clone())
        .bind(entry.evidence.to_string())
        .bind(once)
        .bind(i64::from(engine_gone))
        .execute(tx)
        .await?;
    Ok(done.rows_affected() == 1)
}
