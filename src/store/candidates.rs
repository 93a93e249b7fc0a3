//! Lookups of a sweep. They narrow to a superset of what a rule could call for and never decide; each is an index
//! lookup whose cost grows with what it finds, not with the table.

use std::collections::BTreeMap;

use sqlx::FromRow;

use crate::session::{Id, Session};
use crate::store::error::{At, BadRow};
use crate::store::rows::{Plain, SessionRow, session_columns};
use crate::store::sessions::json_ids;
use crate::store::{FUTURE_SLACK_MS, Store, StoreError};
use crate::time::{HOUR, Ms, UtcMs};

/// A session that the idle part looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its row.
    pub session: Session,
    /// When its idle window was over; none for a row with a time in the future or with none at all.
    pub due_at: Option<UtcMs>,
}

impl Candidate {
    /// Returns the cursor behind which the next page begins.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor { due_at: self.due_at, id: self.session.id.clone() }
    }
}

/// A place in the list of candidates: those that are due come first, by time, and the unsettled ones last, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    due_at: Option<UtcMs>,
    id: Id,
}

/// A back-off further ahead than this was written by a clock that was wrong, and holds nothing back.
const LONGEST_WAIT_MS: Ms = 30 * 24 * HOUR;

/// Open rows under the rule's window. $1 window, $2 now, $3 the latest credible time, $4 the latest credible back-off,
/// $5 and $6 the cursor, $7 limit.
pub(super) const RULE_WINDOW: &str = concat!(
    "SELECT last_used_at + $1 AS due_at, ",
    session_columns!(),
    " FROM sessions
      WHERE status <> 'ended' AND idle_after_ms IS NULL AND last_used_at <= $2 - $1
          AND (last_used_at, id) > ($5 - $1, $6) AND latest_stamp_at <= $3
          AND (next_check_at IS NULL OR next_check_at <= $2 OR next_check_at > $4)
      ORDER BY last_used_at, id LIMIT $7"
);

/// Open rows with a window of their own. Arguments as in [`RULE_WINDOW`], of which $1 is not needed.
pub(super) const OWN_WINDOW: &str = concat!(
    "SELECT own_due_at AS due_at, ",
    session_columns!(),
    " FROM sessions
      WHERE status <> 'ended' AND idle_after_ms IS NOT NULL AND own_due_at <= $2
          AND (own_due_at, id) > ($5, $6) AND latest_stamp_at <= $3 AND last_used_at <= $3
          AND (next_check_at IS NULL OR next_check_at <= $2 OR next_check_at > $4) AND $1 IS NOT NULL
      ORDER BY own_due_at, id LIMIT $7"
);

/// Open rows with a time ahead of $1, or with none. $2 the cursor, $3 limit.
pub(super) const UNSETTLED: &str = concat!(
    "SELECT ",
    session_columns!(),
    " FROM sessions WHERE id IN (
          SELECT id FROM sessions WHERE status <> 'ended' AND last_used_at > $1
          UNION SELECT id FROM sessions WHERE status <> 'ended' AND last_used_at IS NULL
          UNION SELECT id FROM sessions WHERE status <> 'ended' AND latest_stamp_at > $1)
      AND id > $2 ORDER BY id LIMIT $3"
);

pub(super) const STARTING: &str = concat!(
    "SELECT ",
    session_columns!(),
    " FROM sessions WHERE status = 'starting' AND COALESCE(attached_at, started_at) <= $1
      UNION ALL SELECT ",
    session_columns!(),
    " FROM sessions WHERE status = 'starting' AND COALESCE(attached_at, started_at) IS NULL"
);

pub(super) const COUNT_OPEN: &str = "SELECT count(*) FROM sessions WHERE runner_id = $1 AND status <> 'ended'";

/// sqlite: `json_each`; the set is sorted once, so it costs n log m.
pub(super) const UNTRACKED: &str = concat!(
    "SELECT ",
    session_columns!(),
    " FROM sessions WHERE runner_id = $1 AND status <> 'ended' AND id NOT IN (SELECT value FROM json_each($2))
      ORDER BY id"
);

/// sqlite: `json_each`.
pub(super) const MISMATCHED: &str = "SELECT DISTINCT tracked.id FROM
        (SELECT value ->> 0 AS id, value ->> 1 AS generation FROM json_each($2)) AS tracked
    LEFT JOIN sessions ON sessions.id = tracked.id
    WHERE sessions.id IS NULL OR sessions.status = 'ended' OR sessions.runner_id <> $1
        OR sessions.generation <> tracked.generation";

/// Goes from one runner to the next in the index instead of through all rows.
pub(super) const UNENROLLED: &str = "WITH RECURSIVE holder (id) AS (
        SELECT min(runner_id) FROM sessions WHERE status <> 'ended'
        UNION ALL
        SELECT (SELECT min(runner_id) FROM sessions WHERE status <> 'ended' AND runner_id > holder.id)
        FROM holder WHERE holder.id IS NOT NULL)
    SELECT id FROM holder WHERE id IS NOT NULL AND id NOT IN (SELECT id FROM runners)";

#[derive(FromRow)]
struct DueRow {
    due_at: i64,
    #[sqlx(flatten)]
    row: SessionRow,
}

impl Plain for DueRow {
    type Value = (UtcMs, Session);

    fn plain(self) -> Result<(UtcMs, Session), BadRow> {
        Ok((UtcMs(self.due_at), self.row.plain()?))
    }
}

impl Store {
    /// Lists the open rows that the idle part has to look at, `limit` at most, behind the cursor `after`: first those
    /// whose idle window (their own, else `idle_after`) is over at `now` as far as the row tells and that no back-off
    /// holds back, the longest due first; then those with a time more than [`FUTURE_SLACK_MS`] ahead of `now`, which
    /// [`Store::clamp_future`] puts right, and those with no time at all. No row comes twice; an empty page is the end.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_idle_candidates(
        &self,
        now: UtcMs,
        idle_after: Ms,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Vec<Candidate>, StoreError> {
        let mut page = Vec::new();
        let unsettled_after = after.filter(|cursor| cursor.due_at.is_none()).map(|cursor| &cursor.id);
        if unsettled_after.is_none() {
            page = self.list_due((now, idle_after), after, limit).await?;
        }
        let left = limit.saturating_sub(u32::try_from(page.len()).unwrap_or(limit));
        if left > 0 {
            page.extend(self.list_unsettled(now, unsettled_after, left).await?);
        }
        Ok(page)
    }

    async fn list_due(
        &self,
        (now, idle_after): (UtcMs, Ms),
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Vec<Candidate>, StoreError> {
        let mut oldest_first = BTreeMap::new();
        for sql in [RULE_WINDOW, OWN_WINDOW] {
            let query = sqlx::query_as::<_, DueRow>(sql)
                .bind(idle_after)
                .bind(now.0)
                .bind(now.plus(FUTURE_SLACK_MS).0)
                .bind(now.plus(LONGEST_WAIT_MS).0)
                .bind(after.and_then(|cursor| cursor.due_at).map_or(i64::MIN / 2, |due_at| due_at.0))
                .bind(after.map_or("", |cursor| cursor.id.as_str()))
                .bind(i64::from(limit));
            for (due_at, session) in self.read_all(query.fetch_all(self.reader()).await)? {
                oldest_first.insert((due_at, session.id.clone()), session);
            }
        }
        let found = oldest_first.into_iter().take(limit as usize);
        Ok(found.map(|((due_at, _), session)| Candidate { session, due_at: Some(due_at) }).collect())
    }

    async fn list_unsettled(&self, now: UtcMs, after: Option<&Id>, limit: u32) -> Result<Vec<Candidate>, StoreError> {
        let query = sqlx::query_as::<_, SessionRow>(UNSETTLED)
            .bind(now.plus(FUTURE_SLACK_MS).0)
            .bind(after.map_or("", Id::as_str))
            .bind(i64::from(limit));
        let found = self.read_all(query.fetch_all(self.reader()).await)?;
        Ok(found.into_iter().map(|session| Candidate { session, due_at: None }).collect())
    }

    /// Lists `starting` rows whose engine was (re)started at `cutoff` or before, and those that do not tell when.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_starting(&self, cutoff: UtcMs) -> Result<Vec<Session>, StoreError> {
        let query = sqlx::query_as::<_, SessionRow>(STARTING).bind(cutoff.0);
        self.read_all(query.fetch_all(self.reader()).await)
    }

    /// Counts the open rows of a runner.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn count_open(&self, runner: &Id) -> Result<u64, StoreError> {
        let count: i64 =
            sqlx::query_scalar(COUNT_OPEN).bind(runner.as_str()).fetch_one(self.reader()).await.at(self)?;
        Ok(count.unsigned_abs())
    }

    /// Lists the open rows of a runner that are not in its tracked set, in the order of their ids.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_untracked(&self, runner: &Id, tracked: &[Id]) -> Result<Vec<Session>, StoreError> {
        let query = sqlx::query_as::<_, SessionRow>(UNTRACKED).bind(runner.as_str()).bind(json_ids(tracked));
        self.read_all(query.fetch_all(self.reader()).await)
    }

    /// Lists those of a runner's tracked engines whose row is missing, ended, of another runner, or (where the runner
    /// tells one) of another generation, each once, with its row as read a moment later.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_mismatched(
        &self,
        runner: &Id,
        tracked: &[(Id, Option<i64>)],
    ) -> Result<Vec<(Id, Option<Session>)>, StoreError> {
        let query = sqlx::query_scalar(MISMATCHED).bind(runner.as_str()).bind(json_pairs(tracked));
        let found: Vec<String> = query.fetch_all(self.reader()).await.at(self)?;
        let ids = self.read_ids(&found)?;
        let rows = self.find_sessions(&ids).await?;
        let rows: BTreeMap<Id, Session> = rows.into_iter().map(|row| (row.id.clone(), row)).collect();
        Ok(ids
            .into_iter()
            .map(|id| {
                let row = rows.get(&id).cloned();
                (id, row)
            })
            .collect())
    }

    /// Lists the runners that open rows name and that are not enrolled (any more).
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_unenrolled_runners(&self) -> Result<Vec<Id>, StoreError> {
        let found: Vec<String> = sqlx::query_scalar(UNENROLLED).fetch_all(self.reader()).await.at(self)?;
        self.read_ids(&found)
    }
}

fn json_pairs(tracked: &[(Id, Option<i64>)]) -> String {
    serde_json::Value::from_iter(tracked.iter().map(|(id, generation)| serde_json::json!([id, generation]))).to_string()
}
