//! Sweeps and what they did, for the report and for people.

use serde_json::Value;
use sqlx::FromRow;

use crate::session::Id;
use crate::store::error::{At, BadRow};
use crate::store::rows::{Plain, json, word};
use crate::store::{Conn, Store, StoreError};
use crate::time::UtcMs;

/// What a pass did to one session; committed together with the row and its entry.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SweepItem {
    /// The sweep.
    pub sweep_id: Id,
    /// What set the sweep off.
    pub trigger: String,
    /// The session.
    pub session_id: Id,
    /// The part of the sweep.
    pub part: String,
    /// What was decided.
    pub verdict: String,
    /// What was done.
    pub action: String,
    /// One sentence a person understands.
    pub message: String,
    /// When.
    pub at: UtcMs,
}

/// A sweep that has finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSweep {
    /// Its id.
    pub id: Id,
    /// What set it off: `schedule`, `manual` or `api`.
    pub trigger: String,
    /// When it began.
    pub started_at: UtcMs,
    /// Whether it did or met anything that somebody may want to look at later.
    pub eventful: bool,
    /// Its report, as JSON.
    pub report: String,
}

/// The row of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Sweep {
    /// Its id.
    pub id: Id,
    /// What set it off.
    pub trigger: String,
    /// When it began; of one that has not finished, when it first acted.
    pub started_at: UtcMs,
    /// When it finished; none while it runs, and for one that was killed.
    pub finished_at: Option<UtcMs>,
    /// Whether it did or met anything that somebody may want to look at later.
    pub eventful: bool,
    /// Its report, once it has finished.
    #[schema(value_type = Option<Object>)]
    pub report: Option<Value>,
}

#[derive(FromRow)]
struct SweepRow {
    id: String,
    trigger: String,
    started_at: i64,
    finished_at: Option<i64>,
    eventful: i64,
    report: Option<String>,
}

impl Plain for SweepRow {
    type Value = Sweep;

    fn plain(self) -> Result<Sweep, BadRow> {
        Ok(Sweep {
            id: word("id", &self.id)?,
            trigger: self.trigger,
            started_at: UtcMs(self.started_at),
            finished_at: self.finished_at.map(UtcMs),
            eventful: self.eventful != 0,
            report: self.report.map(|text| json("report", &text)).transpose()?,
        })
    }
}

macro_rules! select_sweeps {
    ($rest:literal) => {
        concat!("SELECT id, \"trigger\", started_at, finished_at, eventful, report FROM sweeps ", $rest)
    };
}

impl Store {
    /// Saves a sweep that has finished; the row that its own actions made is completed.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn save_sweep(&self, sweep: NewSweep, finished_at: UtcMs) -> Result<(), StoreError> {
        let sql = "INSERT INTO sweeps (id, \"trigger\", started_at, finished_at, eventful, report)
                   VALUES ($1, $2, $3, $4, $5, $6)
                   ON CONFLICT (id) DO UPDATE SET started_at = excluded.started_at,
                       finished_at = excluded.finished_at, report = excluded.report, eventful = 1";
        let query = sqlx::query(sql)
            .bind(sweep.id.to_string())
            .bind(sweep.trigger)
            .bind(sweep.started_at.0)
            .bind(finished_at.0)
            .bind(i64::from(sweep.eventful))
            .bind(sweep.report);
        query.execute(self.writer()).await.at(self)?;
        Ok(())
    }

    /// Lists sweeps, the newest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_sweeps(&self, limit: u32) -> Result<Vec<Sweep>, StoreError> {
        let sql = select_sweeps!("ORDER BY started_at DESC, id DESC LIMIT $1");
        self.read_all(sqlx::query_as::<_, SweepRow>(sql).bind(i64::from(limit)).fetch_all(self.reader()).await)
    }

    /// Lists the sweeps before `after` in that order, or the newest ones.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_sweeps_after(&self, after: Option<&Id>, limit: u32) -> Result<Vec<Sweep>, StoreError> {
        let Some(after) = after else { return self.list_sweeps(limit).await };
        let sql = select_sweeps!(
            "WHERE (started_at, id) < (SELECT started_at, id FROM sweeps WHERE id = $2)
             ORDER BY started_at DESC, id DESC LIMIT $1"
        );
        let query = sqlx::query_as::<_, SweepRow>(sql).bind(i64::from(limit)).bind(after.as_str());
        self.read_all(query.fetch_all(self.reader()).await)
    }
}

/// Inserts what a pass did, and the pass itself where this is its first action, so that a pass which is killed later is
/// on record.
pub(super) async fn insert_item(tx: &mut Conn, item: &SweepItem) -> Result<(), sqlx::Error> {
    let pass = "INSERT INTO sweeps (id, \"trigger\", started_at, eventful) VALUES ($1, $2, $3, 1)
                ON CONFLICT (id) DO NOTHING";
    let query = sqlx::query(pass).bind(item.sweep_id.as_str()).bind(&item.trigger).bind(item.at.0);
    query.execute(&mut *tx).await?;
    let sql = "INSERT INTO sweep_items (sweep_id, session_id, part, verdict, action, message, at)
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    sqlx::query(sql)
        .bind(item.sweep_id.as_str())
        .bind(item.session_id.as_str())
        .bind(&item.part)
        .bind(&item.verdict)
        .bind(&item.action)
        .bind(&item.message)
        .bind(item.at.0)
        .execute(tx)
        .await?;
    Ok(())
}
