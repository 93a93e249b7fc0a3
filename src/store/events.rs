//! The timeline as a stream: entries in the order in which they were committed, with the session that each is about.

use sqlx::{FromRow, QueryBuilder, Sqlite};

use crate::entry::{EntryKind, Event, EventSession};
use crate::session::Id;
use crate::store::error::{At, BadRow};
use crate::store::rows::{EntryRow, Plain, word};
use crate::store::{Conn, Store, StoreError};

/// The setting that holds up to where entries may have been forgotten.
const FORGOTTEN: &str = "events_forgotten";

/// Which events somebody wants.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Only of this owner's sessions.
    pub owner: Option<String>,
    /// With `owner`: of sessions without an owner too.
    pub ownerless_too: bool,
    /// Only of this session.
    pub session: Option<Id>,
    /// Only of these kinds; empty means all.
    pub kinds: Vec<EntryKind>,
}

/// The highest place that was ever given: also of what is forgotten, so that none is given twice.
macro_rules! select_head {
    () => {
        "SELECT COALESCE(max(seq), 0) FROM (
             SELECT max(seq) AS seq FROM timeline
             UNION ALL SELECT CAST(value AS INTEGER) FROM settings WHERE name = 'events_forgotten') AS highest"
    };
}
pub(super) use select_head;

pub(super) const HEAD: &str = select_head!();

/// Joined in this order, so that the cost grows with the piece that is read and not with what its sessions ever did.
macro_rules! select_events {
    () => {
        "SELECT timeline.seq, timeline.id, timeline.session_id, timeline.generation, timeline.at, timeline.kind,
             timeline.actor, timeline.reason, timeline.message, timeline.evidence, sessions.repo, sessions.engine,
             sessions.runner_id, sessions.owner_id, sessions.status, sessions.generation AS row_generation
         FROM timeline CROSS JOIN sessions WHERE sessions.id = timeline.session_id"
    };
}

pub(super) const EVENT: &str = concat!(select_events!(), " AND timeline.seq = $1");

#[derive(FromRow)]
struct EventRow {
    seq: i64,
    #[sqlx(flatten)]
    entry: EntryRow,
    repo: String,
    engine: String,
    runner_id: String,
    owner_id: Option<String>,
    status: String,
    row_generation: i64,
}

impl Plain for EventRow {
    type Value = Event;

    fn plain(self) -> Result<Event, BadRow> {
        let entry = self.entry.plain()?;
        let session = EventSession {
            id: entry.session_id.clone(),
            repo: self.repo,
            engine: self.engine,
            runner_id: word("runner_id", &self.runner_id)?,
            owner_id: self.owner_id,
            status: word("status", &self.status)?,
            generation: self.row_generation,
        };
        Ok(Event { seq: self.seq, session, entry })
    }
}

impl Store {
    /// Returns the place of the newest entry there ever was; 0 when there was none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn event_head(&self) -> Result<i64, StoreError> {
        sqlx::query_scalar(HEAD).fetch_one(self.reader()).await.at(self)
    }

    /// Returns up to where entries may have been forgotten; behind it all of them are there.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn events_forgotten(&self) -> Result<i64, StoreError> {
        Ok(self.setting(FORGOTTEN).await?.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// Lists the events behind `after`, up to `upto`, in the order of their commits, `limit` at most. Those of sessions
    /// whose row is no longer kept are left out.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_events(
        &self,
        (after, upto): (i64, i64),
        filter: &EventFilter,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new(select_events!());
        sql.push(" AND timeline.seq > ").push_bind(after).push(" AND timeline.seq <= ").push_bind(upto);
        if let Some(owner) = &filter.owner {
            sql.push(" AND (sessions.owner_id = ").push_bind(owner.clone());
            sql.push(if filter.ownerless_too { " OR sessions.owner_id IS NULL)" } else { ")" });
        }
        if let Some(session) = &filter.session {
            sql.push(" AND timeline.session_id = ").push_bind(session.as_str());
        }
        if !filter.kinds.is_empty() {
            let mut list = sql.push(" AND timeline.kind IN (").separated(", ");
            for kind in &filter.kinds {
                list.push_bind(kind.as_str());
            }
            sql.push(")");
        }
        sql.push(" ORDER BY timeline.seq LIMIT ").push_bind(i64::from(limit));
        self.read_all(sql.build_query_as::<EventRow>().fetch_all(self.reader()).await)
    }

    /// Finds the event at a place, if it and the row of its session are still kept.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_event(&self, seq: i64) -> Result<Option<Event>, StoreError> {
        self.read_one(sqlx::query_as::<_, EventRow>(EVENT).bind(seq).fetch_optional(self.reader()).await)
    }
}

/// Notes that entries up to `seq` may be missing from now on.
pub(super) async fn note_forgotten(tx: &mut Conn, seq: i64) -> Result<(), sqlx::Error> {
    let sql = "INSERT INTO settings (name, value) VALUES ($1, $2)
               ON CONFLICT (name) DO UPDATE SET value = excluded.value
               WHERE CAST(excluded.value AS INTEGER) > CAST(settings.value AS INTEGER)";
    sqlx::query(sql).bind(FORGOTTEN).bind(seq.to_string()).execute(tx).await.map(drop)
}
