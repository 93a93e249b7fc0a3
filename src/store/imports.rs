//! Taking over sessions from another system, all or none.

use crate::entry::NewEntry;
use crate::session::{Id, Session};
use crate::store::error::At;
use crate::store::sessions::insert_row;
use crate::store::timeline::insert_entry;
use crate::store::{Conn, Store, StoreError};

/// What came of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// All rows stand.
    Done,
    /// The row at `index` does not go with what is there or with a row before it; nothing was written.
    Refused {
        /// Its place among the given rows, from 0.
        index: usize,
        /// One sentence that names what is in its way.
        why: String,
    },
}

impl Store {
    /// Imports sessions in one transaction, each with the entry that `tell` makes of the row as it was written, if it makes
    /// one; rows without an owner become `owner`'s.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn import_sessions(
        &self,
        sessions: &[Session],
        owner: &str,
        tell: impl Fn(&Session) -> Option<NewEntry>,
    ) -> Result<Imported, StoreError> {
        let mut tx = self.begin().await?;
        for (index, session) in sessions.iter().enumerate() {
            let mut row = session.clone();
            row.owner_id.get_or_insert_with(|| owner.to_owned());
            if !insert_row(&mut tx, &row).await.at(self)? {
                let why = conflict(&mut tx, &row.id).await.at(self)?;
                return Ok(Imported::Refused { index, why });
            }
            if let Some(entry) = tell(&row) {
                insert_entry(&mut tx, &entry).await.at(self)?;
            }
        }
        tx.commit().await.at(self)?;
        Ok(Imported::Done)
    }
}

async fn conflict(tx: &mut Conn, id: &Id) -> Result<String, sqlx::Error> {
    let same_id = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM sessions WHERE id = $1").bind(id.as_str());
    Ok(match same_id.fetch_one(tx).await? {
        0 => format!("session {id} would be the second open one of its owner in its repo"),
        _ => format!("there is a session {id} already"),
    })
}
