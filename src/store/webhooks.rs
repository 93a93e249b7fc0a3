//! How far each webhook has been served, and turning events into deliveries. Sending them is not the store's business.

use std::collections::BTreeMap;

use crate::entry::EntryKind;
use crate::session::Id;
use crate::store::error::At;
use crate::store::events::HEAD;
use crate::store::{Conn, Store, StoreError};
use crate::time::UtcMs;

/// What a webhook of the settings wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The webhook's name.
    pub webhook: Id,
    /// Only of this owner's sessions; none means everybody's.
    pub owner: Option<String>,
    /// Of these kinds.
    pub kinds: Vec<EntryKind>,
}

/// At most so many entries are looked at in one transaction, so that no other writer waits long.
const PIECE: i64 = 1_000;

/// sqlite: `json_each`. $1 behind, $2 up to, $3 the owner, $4 the kinds.
pub(super) const MATCHING: &str = "SELECT timeline.seq, timeline.session_id
    FROM timeline CROSS JOIN sessions
    WHERE sessions.id = timeline.session_id AND timeline.seq > $1 AND timeline.seq <= $2
        AND ($3 IS NULL OR sessions.owner_id = $3) AND timeline.kind IN (SELECT value FROM json_each($4))
    ORDER BY timeline.seq";

impl Store {
    /// Queues a delivery for each event that a webhook has not been asked about yet and wants, and returns how many. A
    /// webhook that is new begins at the head: what happened before is not for it.
    ///
    /// Each piece is one transaction of deliveries and cursor, so that whatever dies in between, and whoever else does
    /// the same, no event is queued twice or left out.
    ///
    /// # Errors
    /// When the store fails; the pieces that were queued stand.
    pub async fn queue_deliveries(&self, hooks: &[Subscription], now: UtcMs) -> Result<u64, StoreError> {
        if hooks.is_empty() {
            return Ok(0);
        }
        let (cursors, head) = (self.webhook_cursors().await?, self.event_head().await?);
        let behind = hooks.iter().filter(|hook| cursors.get(hook.webhook.as_str()) != Some(&head));
        let mut queued = 0;
        for hook in behind {
            while let Some(count) = self.queue_piece(hook, now).await? {
                queued += count;
            }
        }
        Ok(queued)
    }

    async fn webhook_cursors(&self) -> Result<BTreeMap<String, i64>, StoreError> {
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT name, seq FROM webhooks").fetch_all(self.reader()).await.at(self)?;
        Ok(rows.into_iter().collect())
    }

    /// Queues one piece; none when the webhook is at the head.
    async fn queue_piece(&self, hook: &Subscription, now: UtcMs) -> Result<Option<u64>, StoreError> {
        let mut tx = self.begin().await?;
        let head: i64 = sqlx::query_scalar(HEAD).fetch_one(&mut *tx).await.at(self)?;
        let sql = "INSERT INTO webhooks (name, seq, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        let query = sqlx::query(sql).bind(hook.webhook.as_str()).bind(head).bind(now.0);
        query.execute(&mut *tx).await.at(self)?;
        let query = sqlx::query_scalar("SELECT seq FROM webhooks WHERE name = $1").bind(hook.webhook.as_str());
        let cursor: i64 = query.fetch_one(&mut *tx).await.at(self)?;
        let upto = head.min(cursor + PIECE);
        let queued = insert_matching(&mut tx, hook, (cursor, upto), now).await.at(self)?;
        let query = sqlx::query("UPDATE webhooks SET seq = $2 WHERE name = $1").bind(hook.webhook.as_str()).bind(upto);
        query.execute(&mut *tx).await.at(self)?;
        tx.commit().await.at(self)?;
        Ok((cursor < head).then_some(queued))
    }
}

async fn insert_matching(
    tx: &mut Conn,
    hook: &Subscription,
    (after, upto): (i64, i64),
    now: UtcMs,
) -> Result<u64, sqlx::Error> {
    let kinds: Vec<&str> = hook.kinds.iter().map(|kind| kind.as_str()).collect();
    let query = sqlx::query_as::<_, (i64, String)>(MATCHING)
        .bind(after)
        .bind(upto)
        .bind(hook.owner.clone())
        .bind(serde_json::Value::from(kinds).to_string());
    let found = query.fetch_all(&mut *tx).await?;
    let sql = "INSERT INTO deliveries (id, webhook, seq, session_id, status, attempts, next_attempt_at, created_at)
               VALUES ($1, $2, $3, $4, 'pending', 0, $5, $5) ON CONFLICT DO NOTHING";
    for (seq, session) in &found {
        let query = sqlx::query(sql).bind(Id::new().to_string()).bind(hook.webhook.as_str()).bind(*seq);
        query.bind(session.clone()).bind(now.0).execute(&mut *tx).await?;
    }
    Ok(found.len() as u64)
}
