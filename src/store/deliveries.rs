//! The queue of deliveries: what is due, claiming one before it is sent, and noting what came of it.
//!
//! A claim is a lease: it counts up `attempts` and puts the next attempt off until the claim has lapsed. Whoever dies
//! between sending and noting leaves a delivery that is sent again under the same id, and none that is lost.

use sqlx::{FromRow, QueryBuilder, Sqlite};

use crate::entry::{Delivery, DeliveryStatus};
use crate::session::Id;
use crate::store::error::{At, BadRow};
use crate::store::rows::{Plain, word};
use crate::store::{Store, StoreError};
use crate::time::{HOUR, Ms, UtcMs};

/// A delivery that may be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Its id.
    pub id: Id,
    /// The event.
    pub seq: i64,
    /// The session that the event is about.
    pub session_id: Id,
    /// How many attempts were begun.
    pub attempts: i64,
    /// When it was queued.
    pub created_at: UtcMs,
    next_attempt_at: i64,
}

/// Which deliveries to list, the newest first.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// Only those that stand so.
    pub status: Option<DeliveryStatus>,
    /// Only what comes behind this one: the last of the page before.
    pub after: Option<Id>,
    /// At most so many.
    pub limit: u32,
}

/// How the queue of one webhook stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// The webhook's name.
    pub webhook: String,
    /// How many deliveries wait.
    pub pending: u64,
    /// How many were given up lately.
    pub given_up: u64,
    /// When the oldest one that waits was queued.
    pub oldest: Option<UtcMs>,
    /// What went wrong the last time.
    pub last_error: Option<String>,
}

/// A next attempt further ahead than this was written by a clock that was wrong.
const LONGEST_WAIT: Ms = 2 * HOUR;

/// In each session the earliest that is pending, where it is due: a later event waits for its earlier one. $1 webhook, $2
/// now, $3 the latest credible next attempt, $4 limit.
pub(super) const DUE: &str = "SELECT id, seq, session_id, attempts, created_at, next_attempt_at
    FROM deliveries AS due
    WHERE webhook = $1 AND status = 'pending' AND (next_attempt_at <= $2 OR next_attempt_at > $3)
        AND NOT EXISTS (SELECT 1 FROM deliveries AS earlier
            WHERE earlier.webhook = due.webhook AND earlier.session_id = due.session_id
                AND earlier.status = 'pending' AND earlier.seq < due.seq)
    ORDER BY next_attempt_at, seq LIMIT $4";

/// $1 webhook, $2 now, $3 the latest time of queueing, $4 why. One that is being sent is not due, and so left alone.
pub(super) const GIVE_UP_OVERDUE: &str = "UPDATE deliveries
    SET status = 'given_up', finished_at = $2, last_error = COALESCE(last_error, $4)
    WHERE webhook = $1 AND status = 'pending' AND next_attempt_at <= $2 AND created_at <= $3
    RETURNING session_id";

pub(super) const RETRY_UNREACHED: &str = "UPDATE deliveries SET next_attempt_at = $2, unreached = 0
    WHERE webhook = $1 AND status = 'pending' AND next_attempt_at > $2 AND unreached = 1";

/// $1 since when what was given up counts. The error is that of the newest attempt as far as their times tell: what waits
/// failed before its next attempt by its own wait.
pub(super) const COUNTS: &str = "SELECT webhook, count(CASE WHEN status = 'pending' THEN 1 END),
        count(CASE WHEN status = 'given_up' THEN 1 END), min(CASE WHEN status = 'pending' THEN created_at END),
        (SELECT newest.last_error FROM deliveries AS newest
            WHERE newest.status IN ('pending', 'given_up') AND newest.webhook = counted.webhook
                AND (newest.finished_at IS NULL OR newest.finished_at >= $1) AND newest.last_error IS NOT NULL
            ORDER BY COALESCE(newest.finished_at, newest.next_attempt_at) DESC, newest.seq DESC LIMIT 1)
    FROM deliveries AS counted
    WHERE status IN ('pending', 'given_up') AND (finished_at IS NULL OR finished_at >= $1)
    GROUP BY webhook ORDER BY webhook";

#[derive(FromRow)]
struct DueRow {
    id: String,
    seq: i64,
    session_id: String,
    attempts: i64,
    created_at: i64,
    next_attempt_at: i64,
}

impl Plain for DueRow {
    type Value = Due;

    fn plain(self) -> Result<Due, BadRow> {
        Ok(Due {
            id: word("id", &self.id)?,
            seq: self.seq,
            session_id: word("session_id", &self.session_id)?,
            attempts: self.attempts,
            created_at: UtcMs(self.created_at),
            next_attempt_at: self.next_attempt_at,
        })
    }
}

#[derive(FromRow)]
struct DeliveryRow {
    #[sqlx(flatten)]
    due: DueRow,
    webhook: String,
    status: String,
    finished_at: Option<i64>,
    last_error: Option<String>,
}

impl Plain for DeliveryRow {
    type Value = Delivery;

    fn plain(self) -> Result<Delivery, BadRow> {
        let due = self.due.plain()?;
        Ok(Delivery {
            id: due.id,
            webhook: word("webhook", &self.webhook)?,
            seq: due.seq,
            session_id: due.session_id,
            status: word("status", &self.status)?,
            attempts: due.attempts,
            next_attempt_at: UtcMs(due.next_attempt_at),
            created_at: due.created_at,
            finished_at: self.finished_at.map(UtcMs),
            last_error: self.last_error,
        })
    }
}

impl Store {
    /// Lists what of a webhook may be sent now, `limit` at most, one of a session: the earliest that is pending.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_due_deliveries(&self, webhook: &Id, now: UtcMs, limit: u32) -> Result<Vec<Due>, StoreError> {
        let query = sqlx::query_as::<_, DueRow>(DUE)
            .bind(webhook.as_str())
            .bind(now.0)
            .bind(now.plus(LONGEST_WAIT).0)
            .bind(i64::from(limit));
        self.read_all(query.fetch_all(self.reader()).await)
    }

    /// Claims a delivery until `until`, for whoever is about to send it; false when somebody else did, or it is over.
    ///
    /// # Errors
    /// When the store fails; it must not be sent then.
    pub async fn claim_delivery(&self, due: &Due, until: UtcMs) -> Result<bool, StoreError> {
        let sql = "UPDATE deliveries SET attempts = attempts + 1, next_attempt_at = $4, unreached = 0
                   WHERE id = $1 AND status = 'pending' AND attempts = $2 AND next_attempt_at = $3";
        let query = sqlx::query(sql).bind(due.id.as_str()).bind(due.attempts).bind(due.next_attempt_at).bind(until.0);
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Notes that the receiver took it, whatever else was noted meanwhile.
    ///
    /// # Errors
    /// When the store fails; it is sent again then.
    pub async fn note_delivered(&self, id: &Id, now: UtcMs) -> Result<(), StoreError> {
        let sql = "UPDATE deliveries SET status = 'delivered', finished_at = $2, last_error = NULL
                   WHERE id = $1 AND status <> 'delivered'";
        sqlx::query(sql).bind(id.as_str()).bind(now.0).execute(self.writer()).await.at(self).map(drop)
    }

    /// Notes that the attempt that was claimed on `due` failed, why, whether that was for want of a receiver, and when the
    /// next one may be made; false when another attempt has begun since, or it is over.
    ///
    /// # Errors
    /// When the store fails; the claim lapses by itself then.
    pub async fn note_postponed(
        &self,
        due: &Due,
        next: UtcMs,
        (why, unreached): (&str, bool),
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE deliveries SET next_attempt_at = $3, last_error = $4, unreached = $5
                   WHERE id = $1 AND status = 'pending' AND attempts = $2 + 1";
        let query = sqlx::query(sql).bind(due.id.as_str()).bind(due.attempts).bind(next.0).bind(why);
        let query = query.bind(i64::from(unreached));
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Notes that the attempt that was claimed on `due` was the last; false as with [`Store::note_postponed`].
    ///
    /// # Errors
    /// When the store fails; the claim lapses by itself then.
    pub async fn note_given_up(&self, due: &Due, now: UtcMs, why: &str) -> Result<bool, StoreError> {
        let sql = "UPDATE deliveries SET status = 'given_up', finished_at = $3, last_error = $4
                   WHERE id = $1 AND status = 'pending' AND attempts = $2 + 1";
        let query = sqlx::query(sql).bind(due.id.as_str()).bind(due.attempts).bind(now.0).bind(why);
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Makes due what of a webhook waits only because its receiver could not be reached: it is back.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn retry_unreached(&self, webhook: &Id, now: UtcMs) -> Result<(), StoreError> {
        let query = sqlx::query(RETRY_UNREACHED).bind(webhook.as_str()).bind(now.0);
        query.execute(self.writer()).await.at(self).map(drop)
    }

    /// Gives up what of a webhook was queued at `queued_by` or before, is due, and is not being sent; returns the sessions
    /// that it was about, one for each delivery.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn give_up_overdue(
        &self,
        webhook: &Id,
        (now, queued_by): (UtcMs, UtcMs),
        why: &str,
    ) -> Result<Vec<Id>, StoreError> {
        let query = sqlx::query_scalar(GIVE_UP_OVERDUE).bind(webhook.as_str()).bind(now.0).bind(queued_by.0).bind(why);
        let found: Vec<String> = query.fetch_all(self.writer()).await.at(self)?;
        self.read_ids(&found)
    }

    /// Lists deliveries, the newest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_deliveries(&self, filter: &DeliveryFilter) -> Result<Vec<Delivery>, StoreError> {
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new(
            "SELECT id, seq, session_id, attempts, created_at, next_attempt_at, webhook, status, finished_at, last_error
             FROM deliveries WHERE 1 = 1",
        );
        if let Some(status) = filter.status {
            sql.push(" AND status = ").push_bind(status.as_str());
        }
        if let Some(after) = &filter.after {
            sql.push(" AND id < ").push_bind(after.as_str());
        }
        sql.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(filter.limit));
        self.read_all(sql.build_query_as::<DeliveryRow>().fetch_all(self.reader()).await)
    }

    /// Returns how the queues of all webhooks stand that have anything pending, or given up since `since`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn delivery_queues(&self, since: UtcMs) -> Result<Vec<Queue>, StoreError> {
        type Row = (String, i64, i64, Option<i64>, Option<String>);
        let rows: Vec<Row> = sqlx::query_as(COUNTS).bind(since.0).fetch_all(self.reader()).await.at(self)?;
        let queue = |(webhook, pending, given_up, oldest, last_error): Row| Queue {
            webhook,
            pending: pending.unsigned_abs(),
            given_up: given_up.unsigned_abs(),
            oldest: oldest.map(UtcMs),
            last_error,
        };
        Ok(rows.into_iter().map(queue).collect())
    }
}
