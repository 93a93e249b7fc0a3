//! Starts of sessions with all that the next start needs: the arguments, the engine's own id, and the entry that tells.

use crate::entry::NewEntry;
use crate::protocol::Ended;
use crate::session::{Id, Session};
use crate::store::error::{At, BadRow, is_taken};
use crate::store::rows::{Plain, SessionRow, session_columns};
use crate::store::sessions::{insert_row, open_session};
use crate::store::timeline::{insert_entry, write_entry};
use crate::store::{Begun, Conn, Inserted, Store, StoreError};
use crate::time::UtcMs;

impl Store {
    /// Inserts a session as it is, with the arguments that its engine is started with and the entry that tells of its
    /// start, in one transaction.
    ///
    /// # Errors
    /// When the store fails, or has a session of that id already.
    pub async fn insert_started(
        &self,
        session: &Session,
        args: &[String],
        entry: &NewEntry,
    ) -> Result<Inserted, StoreError> {
        let mut tx = self.begin().await?;
        if insert_row(&mut tx, session).await.at(self)? {
            write_args(&mut tx, &session.id, args).await.at(self)?;
            insert_entry(&mut tx, entry).await.at(self)?;
            tx.commit().await.at(self)?;
            return Ok(Inserted::Done);
        }
        let open = open_session(session.owner_id.as_deref(), &session.repo).fetch_optional(&mut *tx).await;
        match self.read_one(open)? {
            Some(open) if open.id != session.id => Ok(Inserted::Taken(Box::new(open))),
            _ => Err(StoreError::Failed {
                store: self.name().to_owned(),
                why: format!("it has a session {} already", session.id),
            }),
        }
    }

    /// Finds the newest session of an owner in a repo, open or ended: the one whose last start is the latest. An imported
    /// id is free text, and says nothing of the time.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_newest_session(&self, owner: &str, repo: &str) -> Result<Option<Session>, StoreError> {
        let query = sqlx::query_as::<_, SessionRow>(NEWEST).bind(owner.to_owned()).bind(repo.to_owned());
        self.read_one(query.fetch_optional(self.reader()).await)
    }

    /// Returns the arguments that a session's engine was started with; none where none are known.
    ///
    /// # Errors
    /// When the store fails, or what stands there are no arguments.
    pub async fn start_args(&self, id: &Id) -> Result<Vec<String>, StoreError> {
        let query = sqlx::query_scalar("SELECT args FROM sessions WHERE id = $1").bind(id.as_str());
        let found: Option<Option<String>> = query.fetch_optional(self.reader()).await.at(self)?;
        let Some(text) = found.flatten() else { return Ok(Vec::new()) };
        serde_json::from_str(&text).map_err(|why| BadRow(format!("in column args, {why}"))).at(self)
    }

    /// Opens the next generation of a session on a runner, for a restart, a re-attach or a move, and tells of it in the
    /// same transaction; the entry's time is the start's.
    ///
    /// The row becomes `starting` with `attached_at` = the entry's time, `reopened` 0, no end and no back-off; starting it
    /// is activity of kind `start`.
    ///
    /// Only while the row is exactly of the start that was read: its generation, `reopened`, status and runner. So of any
    /// number of callers that read the same row one begins, and a row that was closed meanwhile is not opened again
    /// unless it was read as closed.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn begin_and_tell(&self, read: &Session, runner_id: &Id, entry: &NewEntry) -> Result<Begun, StoreError> {
        let mut tx = self.begin().await?;
        match next_generation(&mut tx, read, runner_id, entry.at).await {
            Ok(true) => {}
            Ok(false) => return Ok(Begun::LostRace),
            Err(error) if is_taken(&error) => {
                drop(tx);
                let open = self.find_open_session(read.owner_id.as_deref(), &read.repo).await?;
                return Ok(open.map_or(Begun::LostRace, |open| Begun::Taken(Box::new(open))));
            }
            Err(error) => return Err(error).at(self),
        }
        let entry = NewEntry { session_id: read.id.clone(), generation: read.generation + 1, ..entry.clone() };
        write_entry(&mut tx, &entry, None, false).await.at(self)?;
        let sql = concat!("SELECT ", session_columns!(), " FROM sessions WHERE id = $1");
        let row = sqlx::query_as::<_, SessionRow>(sql).bind(read.id.as_str()).fetch_one(&mut *tx).await.at(self)?;
        tx.commit().await.at(self)?;
        Ok(Begun::Done(Box::new(row.plain().at(self)?)))
    }

    /// Notes the engines' own ids of their conversations, as `runner` says them, on the rows of that runner and generation
    /// that have none or another. An engine whose generation is not said is that of its row. Returns how many changed.
    ///
    /// An id that a row of another owner has, open or ended, on whatever runner, is never written: whoever had it first
    /// keeps it.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn note_engine_ids(&self, runner: &Id, said: &[(Id, Option<i64>, String)]) -> Result<u64, StoreError> {
        if said.is_empty() || !self.has_news(runner, said).await? {
            return Ok(0);
        }
        let mut tx = self.begin().await?;
        let mut changed = 0;
        // One after the other: two owners' engines may say the same at once.
        for (id, generation, own) in said {
            let query = sqlx::query(NOTE_ENGINE_ID).bind(id.as_str()).bind(generation).bind(own.clone());
            changed += query.bind(runner.as_str()).execute(&mut *tx).await.at(self)?.rows_affected();
        }
        tx.commit().await.at(self)?;
        Ok(changed)
    }

    /// Notes what an engine of `runner` that is gone called its conversation last, with which the session can be resumed.
    /// It is written as by [`Store::note_engine_ids`]; nothing is where the record names none.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn note_last_engine_id(&self, runner: &Id, ended: &Ended) -> Result<(), StoreError> {
        let Some(own) = &ended.engine_session_id else { return Ok(()) };
        let said = (ended.session_id.clone(), Some(ended.generation), own.clone());
        self.note_engine_ids(runner, &[said]).await.map(drop)
    }

    /// Notes the engine's own id of the conversation; false when it stands there already, a row of another owner has it,
    /// or the row is not of that generation.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_engine_session_id(&self, id: &Id, generation: i64, value: &str) -> Result<bool, StoreError> {
        let query = sqlx::query(NOTE_ENGINE_ID).bind(id.as_str()).bind(generation).bind(value.to_owned());
        let done = query.bind(None::<String>).execute(self.writer()).await.at(self)?;
        Ok(done.rows_affected() == 1)
    }

    /// Returns whether any of the ids is news, so that a pass without news writes nothing.
    async fn has_news(&self, runner: &Id, said: &[(Id, Option<i64>, String)]) -> Result<bool, StoreError> {
        let query = sqlx::query_scalar(NEW_ENGINE_IDS).bind(runner.as_str()).bind(json_said(said));
        query.fetch_one(self.reader()).await.at(self)
    }
}

pub(super) const NEWEST: &str = concat!(
    "SELECT ",
    session_columns!(),
    " FROM sessions WHERE owner_id = $1 AND repo = $2 \
     ORDER BY COALESCE(attached_at, started_at) DESC, id DESC LIMIT 1"
);
/// The condition that no row of another owner has an engine's own id; rows without an owner count as one owner's.
macro_rules! not_anothers {
    ($own:literal) => {
        concat!(
            " AND NOT EXISTS (SELECT 1 FROM sessions AS other WHERE other.engine_session_id = ",
            $own,
            " AND COALESCE(other.owner_id, '') <> COALESCE(sessions.owner_id, ''))"
        )
    };
}

/// sqlite: `json_each`.
pub(super) const NEW_ENGINE_IDS: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM
        (SELECT value ->> 0 AS id, value ->> 1 AS generation, value ->> 2 AS own FROM json_each($2)) AS said
    JOIN sessions ON sessions.id = said.id
    WHERE runner_id = $1 AND sessions.generation = COALESCE(said.generation, sessions.generation)
        AND sessions.engine_session_id IS DISTINCT FROM said.own",
    not_anothers!("said.own"),
    ")"
);

pub(super) const NOTE_ENGINE_ID: &str = concat!(
    "UPDATE sessions SET engine_session_id = $3
     WHERE id = $1 AND generation = COALESCE($2, generation) AND runner_id = COALESCE($4, runner_id)
        AND engine_session_id IS DISTINCT FROM $3",
    not_anothers!("$3")
);

fn json_said(said: &[(Id, Option<i64>, String)]) -> String {
    serde_json::Value::from_iter(said.iter().map(|(id, generation, own)| serde_json::json!([id, generation, own])))
        .to_string()
}

async fn write_args(tx: &mut Conn, id: &Id, args: &[String]) -> Result<(), sqlx::Error> {
    if args.is_empty() {
        return Ok(());
    }
    let text = serde_json::Value::from(args).to_string();
    let query = sqlx::query("UPDATE sessions SET args = $2 WHERE id = $1").bind(id.as_str().to_owned()).bind(text);
    query.execute(tx).await.map(drop)
}

async fn next_generation(tx: &mut Conn, read: &Session, runner_id: &Id, at: UtcMs) -> Result<bool, sqlx::Error> {
    let sql = "UPDATE sessions SET generation = generation + 1, reopened = 0, status = 'starting', runner_id = $3,
                   attached_at = $4, started_at = COALESCE(started_at, $4), updated_at = $4,
                   last_activity_at = CASE WHEN last_activity_at > $4 THEN last_activity_at ELSE $4 END,
                   last_activity_kind = 'start',
                   shared_at = CASE WHEN shared_at >= $4 THEN shared_at ELSE $4 END,
                   next_check_at = NULL, check_delay_ms = NULL,
                   ended_at = NULL, end_reason = NULL
               WHERE id = $1 AND generation = $2 AND reopened = $5 AND status = $6 AND runner_id = $7";
    let query = sqlx::query(sql)
        .bind(read.id.as_str())
        .bind(read.generation)
        .bind(runner_id.as_str())
        .bind(at.0)
        .bind(read.reopened)
        .bind(read.status.as_str())
        .bind(read.runner_id.as_str());
    Ok(query.execute(tx).await?.rows_affected() == 1)
}
