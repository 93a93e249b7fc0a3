//! Open rows whose idle window is about to end, for warnings. It narrows to a superset and decides nothing.

use sqlx::FromRow;

use crate::session::{Id, Session};
use crate::store::error::BadRow;
use crate::store::rows::{Plain, SessionRow, session_columns};
use crate::store::{Store, StoreError};
use crate::time::{Ms, UtcMs};

/// The idle windows that rules may give to rows that have none of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// The shortest.
    pub shortest: Ms,
    /// The longest; the same where there is one.
    pub longest: Ms,
}

/// Where the next page of [`Store::list_due_soon`] begins.
#[derive(Debug, Clone, Default)]
pub struct DueSoonCursor {
    ruled: Option<(i64, Id)>,
    own: Option<(i64, Id)>,
}

/// Under the rule's windows. $1 last used later than this, $2 and not later than this, $3 and $4 the cursor, $5 limit.
pub(super) const RULE_WINDOW: &str = concat!(
    "SELECT last_used_at AS sorted_at, ",
    session_columns!(),
    " FROM sessions
      WHERE status <> 'ended' AND idle_after_ms IS NULL AND last_used_at > $1 AND last_used_at <= $2
          AND (last_used_at, id) > ($3, $4)
      ORDER BY last_used_at, id LIMIT $5"
);

/// Under a window of their own: due later than $1, and not later than $2. The rest as in [`RULE_WINDOW`].
pub(super) const OWN_WINDOW: &str = concat!(
    "SELECT own_due_at AS sorted_at, ",
    session_columns!(),
    " FROM sessions
      WHERE status <> 'ended' AND idle_after_ms IS NOT NULL AND own_due_at > $1 AND own_due_at <= $2
          AND (own_due_at, id) > ($3, $4)
      ORDER BY own_due_at, id LIMIT $5"
);

#[derive(FromRow)]
struct SortedRow {
    sorted_at: i64,
    #[sqlx(flatten)]
    row: SessionRow,
}

impl Plain for SortedRow {
    type Value = (i64, Session);

    fn plain(self) -> Result<(i64, Session), BadRow> {
        Ok((self.sorted_at, self.row.plain()?))
    }
}

impl Store {
    /// Lists the open rows whose idle window (their own, else one of `windows`) may end after `now` and within `within`,
    /// as far as the row tells: first those under a rule's window, then those with one of their own, each list behind its
    /// place in `after`, `limit` of each at most. An empty page is the end.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_due_soon(
        &self,
        (now, within): (UtcMs, Ms),
        windows: Windows,
        after: &mut DueSoonCursor,
        limit: u32,
    ) -> Result<Vec<Session>, StoreError> {
        let ruled = (now.minus(windows.longest), now.minus(windows.shortest).plus(within));
        let mut page = self.due_soon(RULE_WINDOW, ruled, &mut after.ruled, limit).await?;
        page.extend(self.due_soon(OWN_WINDOW, (now, now.plus(within)), &mut after.own, limit).await?);
        Ok(page)
    }

    async fn due_soon(
        &self,
        sql: &'static str,
        (from, to): (UtcMs, UtcMs),
        after: &mut Option<(i64, Id)>,
        limit: u32,
    ) -> Result<Vec<Session>, StoreError> {
        let query = sqlx::query_as::<_, SortedRow>(sql)
            .bind(from.0)
            .bind(to.0)
            .bind(after.as_ref().map_or(i64::MIN / 2, |(at, _)| *at))
            .bind(after.as_ref().map_or("", |(_, id)| id.as_str()).to_owned())
            .bind(i64::from(limit));
        let page = self.read_all(query.fetch_all(self.reader()).await)?;
        if let Some((at, last)) = page.last() {
            *after = Some((*at, last.id.clone()));
        }
        Ok(page.into_iter().map(|(_, session)| session).collect())
    }
}
