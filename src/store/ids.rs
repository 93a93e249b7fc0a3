//! Ids of sessions by where they stand among each other: those that begin alike, and the next ones on both sides.

use crate::session::{Id, Session};
use crate::store::error::At;
use crate::store::rows::{SessionRow, session_columns};
use crate::store::sessions::json_ids;
use crate::store::{Store, StoreError};

/// Behind each character that an id may hold, in the order in which the store compares them.
const BEHIND_ALL: char = '\u{7f}';

/// An id with the ids right before and right behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbours {
    /// The id, whether there is a session of it or not.
    pub id: String,
    /// The greatest one that is less.
    pub before: Option<String>,
    /// The least one that is greater.
    pub behind: Option<String>,
}

impl Store {
    /// Lists the sessions, open or ended, whose ids have this length and begin with this, in the order of their ids: `limit`
    /// at most.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_sessions_beginning(
        &self,
        beginning: &Id,
        length: usize,
        limit: u32,
    ) -> Result<Vec<Session>, StoreError> {
        let sql = concat!(
            "SELECT ",
            session_columns!(),
            " FROM sessions WHERE id >= $1 AND id < $2 AND length(id) = $3 ORDER BY id LIMIT $4"
        );
        let query = sqlx::query_as::<_, SessionRow>(sql)
            .bind(beginning.as_str())
            .bind(format!("{beginning}{BEHIND_ALL}"))
            .bind(i64::try_from(length).unwrap_or(i64::MAX))
            .bind(i64::from(limit));
        self.read_all(query.fetch_all(self.reader()).await)
    }

    /// Finds the neighbours of each of the ids among the ids of all sessions.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_neighbours(&self, ids: &[Id]) -> Result<Vec<Neighbours>, StoreError> {
        // sqlite: json_each.
        let sql = "SELECT value, (SELECT MAX(id) FROM sessions WHERE id < value),
                       (SELECT MIN(id) FROM sessions WHERE id > value)
                   FROM json_each($1)";
        let rows = sqlx::query_as::<_, (String, Option<String>, Option<String>)>(sql).bind(json_ids(ids));
        let rows = rows.fetch_all(self.reader()).await.at(self)?;
        Ok(rows.into_iter().map(|(id, before, behind)| Neighbours { id, before, behind }).collect())
    }
}
