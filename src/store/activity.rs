//! Writing down use and back-off: forward only, in few statements.

use std::collections::BTreeMap;

use crate::session::{ActivityKind, Id};
use crate::store::error::At;
use crate::store::sessions::json_ids;
use crate::store::{FUTURE_SLACK_MS, Store, StoreError};
use crate::time::{Ms, UtcMs};

/// One use of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// The session.
    pub id: Id,
    /// When.
    pub at: UtcMs,
    /// What used it.
    pub kind: ActivityKind,
}

/// sqlite: `json_each`. A touch that is no news still clears the back-off.
pub(super) const WRITE_TOUCHES: &str = "UPDATE sessions SET
        last_activity_kind = CASE WHEN last_activity_at >= touch.at THEN last_activity_kind ELSE touch.kind END,
        last_activity_at = CASE WHEN last_activity_at >= touch.at THEN last_activity_at ELSE touch.at END,
        shared_at = CASE WHEN touch.shared IS NULL OR shared_at >= touch.shared THEN shared_at ELSE touch.shared END,
        next_check_at = NULL, check_delay_ms = NULL
    FROM (SELECT value ->> 0 AS id, value ->> 1 AS at, value ->> 2 AS kind, value ->> 3 AS shared
        FROM json_each($1)) AS touch
    WHERE sessions.id = touch.id AND sessions.status <> 'ended'
    RETURNING sessions.id";

/// sqlite: `json_each`.
pub(super) const NOTE_ENGINE_WORK: &str = "UPDATE sessions SET
        last_activity_at = $2, last_activity_kind = 'engine', next_check_at = NULL, check_delay_ms = NULL
    WHERE id IN (SELECT value FROM json_each($1)) AND status <> 'ended'
        AND (last_activity_at IS NULL OR last_activity_at <= $3)
    RETURNING id";

impl Store {
    /// Writes touches in one statement and one transaction; returns the ids of the open rows among them, whose
    /// `last_activity_at` is now that of the touch or later. An id that is not returned is ended or unknown.
    ///
    /// The times only move forward, `updated_at` stays, and the back-off of each row is cleared. Of several touches of a row
    /// the latest is what used it last, and the latest of a kind that is certainly no run's is kept beside that.
    ///
    /// # Errors
    /// When the store fails; then no touch was written.
    pub async fn write_touches(&self, touches: &[Touch]) -> Result<Vec<Id>, StoreError> {
        // One touch a row: what a statement does with two for the same row is not defined.
        let mut latest: BTreeMap<&Id, (&Touch, Option<UtcMs>)> = BTreeMap::new();
        for touch in touches {
            let (kept, shared) = latest.entry(&touch.id).or_insert((touch, None));
            if touch.at > kept.at {
                *kept = touch;
            }
            *shared = (*shared).max(touch.kind.is_shared().then_some(touch.at));
        }
        if latest.is_empty() {
            return Ok(Vec::new());
        }
        let row = |(touch, shared): &(&Touch, Option<UtcMs>)| {
            serde_json::json!([touch.id, touch.at.0, touch.kind, shared.map(|at| at.0)])
        };
        let rows = latest.values().map(row);
        let query = sqlx::query_scalar(WRITE_TOUCHES).bind(serde_json::Value::from_iter(rows).to_string());
        let written = query.fetch_all(self.writer()).await.at(self)?;
        self.read_ids(&written)
    }

    /// Reads when somebody last used a session who is certainly no run in it; none where nobody did.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_shared_use(&self, id: &Id) -> Result<Option<UtcMs>, StoreError> {
        let query = sqlx::query_scalar("SELECT shared_at FROM sessions WHERE id = $1").bind(id.as_str());
        let found: Option<Option<i64>> = query.fetch_optional(self.reader()).await.at(self)?;
        Ok(found.flatten().map(UtcMs))
    }

    /// Writes activity of kind `engine`, now, for the open rows among `ids` whose last activity is `throttle` old or
    /// older; returns those.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn note_engine_work(&self, ids: &[Id], now: UtcMs, throttle: Ms) -> Result<Vec<Id>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let query = sqlx::query_scalar(NOTE_ENGINE_WORK).bind(json_ids(ids)).bind(now.0).bind(now.minus(throttle).0);
        let written = query.fetch_all(self.writer()).await.at(self)?;
        self.read_ids(&written)
    }

    /// Sets each time of an open row that lies more than [`FUTURE_SLACK_MS`] ahead of `now` to `now`; false when there
    /// is none. `keep_until` lies ahead by nature and stays.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn clamp_future(&self, id: &Id, now: UtcMs) -> Result<bool, StoreError> {
        let sql = "UPDATE sessions SET
                last_activity_at = CASE WHEN last_activity_at > $3 THEN $2 ELSE last_activity_at END,
                updated_at = CASE WHEN updated_at > $3 THEN $2 ELSE updated_at END,
                started_at = CASE WHEN started_at > $3 THEN $2 ELSE started_at END,
                attached_at = CASE WHEN attached_at > $3 THEN $2 ELSE attached_at END,
                driver_at = CASE WHEN driver_at > $3 THEN $2 ELSE driver_at END,
                shared_at = CASE WHEN shared_at > $3 THEN $2 ELSE shared_at END
            WHERE id = $1 AND status <> 'ended' AND (last_activity_at > $3 OR latest_stamp_at > $3)";
        let query = sqlx::query(sql).bind(id.as_str()).bind(now.0).bind(now.plus(FUTURE_SLACK_MS).0);
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Holds an open row of that generation back from the idle part until `until`, and notes the wait that led there;
    /// false when there is no such row.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn postpone(&self, id: &Id, generation: i64, until: UtcMs, delay: Ms) -> Result<bool, StoreError> {
        let sql = "UPDATE sessions SET next_check_at = $3, check_delay_ms = $4
                   WHERE id = $1 AND generation = $2 AND status <> 'ended'";
        let query = sqlx::query(sql).bind(id.as_str()).bind(generation).bind(until.0).bind(delay);
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }

    /// Reads the wait that led to a session's last back-off; none when there was none since it was last used.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_check_delay(&self, id: &Id) -> Result<Option<Ms>, StoreError> {
        let query = sqlx::query_scalar("SELECT check_delay_ms FROM sessions WHERE id = $1").bind(id.as_str());
        let found: Option<Option<Ms>> = query.fetch_optional(self.reader()).await.at(self)?;
        Ok(found.flatten())
    }
}
