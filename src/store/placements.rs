//! Where open sessions are said to be: the few columns that an overview of very many of them needs.

use serde::Deserialize;
use sqlx::QueryBuilder;

use crate::session::{Id, Status};
use crate::store::error::{At, BadRow};
use crate::store::sessions::narrow;
use crate::store::{SessionFilter, Store, StoreError};
use crate::time::UtcMs;

/// Which runner is said to hold an open session's engine, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The session.
    pub session_id: Id,
    /// Its runner.
    pub runner_id: Id,
    /// Which start of the session its engine belongs to.
    pub generation: i64,
    /// Whether the row counts the engine as there, and not as about to be started.
    pub is_active: bool,
    /// When the engine was last started.
    pub began: Option<UtcMs>,
}

/// A row as it is read: id, runner, generation, status, and when the engine was last started.
#[derive(Deserialize)]
struct Row(Id, Id, i64, String, Option<i64>);

impl Store {
    /// Lists where the sessions of a filter are, in the order of their ids; `limit` is not looked at.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_placements(&self, filter: &SessionFilter) -> Result<Vec<Placement>, StoreError> {
        // sqlite: json_group_array. All rows as one value: handing over ten thousand one by one takes much longer than
        // reading them.
        let mut sql = QueryBuilder::new(
            "SELECT json_group_array(json_array(id, runner_id, generation, status, \
             COALESCE(attached_at, started_at))) FROM sessions WHERE 1 = 1",
        );
        narrow(&mut sql, filter);
        let text: String = sql.build_query_scalar().fetch_one(self.reader()).await.at(self)?;
        let mut placements = read(&text).at(self)?;
        placements.sort_unstable_by(|one, other| one.session_id.cmp(&other.session_id));
        Ok(placements)
    }
}

fn read(text: &str) -> Result<Vec<Placement>, BadRow> {
    let rows: Vec<Row> = serde_json::from_str(text).map_err(|why| BadRow(why.to_string()))?;
    rows.into_iter().map(plain).collect()
}

fn plain(Row(session_id, runner_id, generation, status, began): Row) -> Result<Placement, BadRow> {
    let is_active = status.parse::<Status>().map_err(BadRow)? == Status::Active;
    Ok(Placement { session_id, runner_id, generation, is_active, began: began.map(UtcMs) })
}
