//! API tokens: only their hashes are kept. Those of people and hosts are listed; those of engines come and go with starts.

use sqlx::FromRow;

use crate::session::Id;
use crate::store::error::{At, BadRow};
use crate::store::rows::Plain;
use crate::store::{Store, StoreError};
use crate::time::UtcMs;

/// A token's row.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Token {
    /// Its id, with which it is revoked.
    pub id: Id,
    /// The hash of the secret.
    #[serde(skip)]
    pub hash: String,
    /// Whose sessions it opens.
    pub owner_id: String,
    /// What it may do: words joined by commas.
    pub scope: String,
    /// When it was made.
    pub created_at: UtcMs,
    /// When it was revoked.
    pub revoked_at: Option<UtcMs>,
    /// The session whose engine has it, and which start of it: it can keep that one and nothing else.
    #[serde(skip)]
    pub lease: Option<(Id, i64)>,
}

#[derive(FromRow)]
struct TokenRow {
    id: String,
    hash: String,
    owner_id: String,
    scope: String,
    created_at: i64,
    revoked_at: Option<i64>,
    session_id: Option<String>,
    generation: Option<i64>,
}

/// The columns of [`TokenRow`], and which tokens are people's and hosts'.
macro_rules! select_tokens {
    ($rest:literal) => {
        concat!("SELECT id, hash, owner_id, scope, created_at, revoked_at, session_id, generation FROM tokens ", $rest)
    };
}

impl Plain for TokenRow {
    type Value = Token;

    fn plain(self) -> Result<Token, BadRow> {
        Ok(Token {
            id: self.id.parse().map_err(BadRow)?,
            hash: self.hash,
            owner_id: self.owner_id,
            scope: self.scope,
            created_at: UtcMs(self.created_at),
            revoked_at: self.revoked_at.map(UtcMs),
            lease: match (self.session_id, self.generation) {
                (Some(session), generation) => Some((session.parse().map_err(BadRow)?, generation.unwrap_or(0))),
                (None, _) => None,
            },
        })
    }
}

impl Store {
    /// Inserts a token.
    ///
    /// # Errors
    /// When the store fails, or has that id or hash already.
    pub async fn insert_token(&self, token: &Token) -> Result<(), StoreError> {
        let sql = "INSERT INTO tokens (id, hash, owner_id, scope, created_at, revoked_at, session_id, generation)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        let query = sqlx::query(sql)
            .bind(token.id.as_str())
            .bind(&token.hash)
            .bind(&token.owner_id)
            .bind(&token.scope)
            .bind(token.created_at.0)
            .bind(token.revoked_at.map(|t| t.0))
            .bind(token.lease.as_ref().map(|(session, _)| session.as_str()))
            .bind(token.lease.as_ref().map(|(_, generation)| *generation));
        query.execute(self.writer()).await.at(self).map(drop)
    }

    /// Revokes the tokens of a session's engines that were made for starts before this one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn revoke_leases(&self, session: &Id, before: i64, at: UtcMs) -> Result<(), StoreError> {
        let sql = "UPDATE tokens SET revoked_at = $3
                   WHERE session_id = $1 AND generation < $2 AND revoked_at IS NULL";
        let query = sqlx::query(sql).bind(session.as_str()).bind(before).bind(at.0);
        query.execute(self.writer()).await.at(self).map(drop)
    }

    /// Finds the token with that hash, unless it is revoked.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_token(&self, hash: &str) -> Result<Option<Token>, StoreError> {
        let sql = select_tokens!("WHERE hash = $1 AND revoked_at IS NULL");
        self.read_one(sqlx::query_as::<_, TokenRow>(sql).bind(hash).fetch_optional(self.reader()).await)
    }

    /// Lists the tokens of people and hosts, revoked ones included, in the order of their making.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_tokens(&self) -> Result<Vec<Token>, StoreError> {
        let sql = select_tokens!("WHERE session_id IS NULL ORDER BY created_at, id");
        self.read_all(sqlx::query_as::<_, TokenRow>(sql).fetch_all(self.reader()).await)
    }

    /// Counts the tokens of people and hosts that are not revoked.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn count_tokens(&self) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM tokens WHERE revoked_at IS NULL AND session_id IS NULL";
        let count: i64 = sqlx::query_scalar(sql).fetch_one(self.reader()).await.at(self)?;
        Ok(count.unsigned_abs())
    }

    /// Lists whose the tokens that are not revoked and the open sessions are, each owner once.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_owners(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT owner_id FROM tokens WHERE revoked_at IS NULL AND session_id IS NULL
                   UNION SELECT owner_id FROM sessions WHERE status <> 'ended' AND owner_id IS NOT NULL
                   ORDER BY owner_id";
        sqlx::query_scalar(sql).fetch_all(self.reader()).await.at(self)
    }

    /// Finds whose what names nobody is: the owner of the oldest token that is not revoked, so that further owners change
    /// nothing, else of an open session, else of any; none when the store is nobody's yet.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_owner(&self) -> Result<Option<String>, StoreError> {
        let sql = "SELECT owner_id FROM (
                SELECT 1 AS place, (SELECT owner_id FROM tokens WHERE revoked_at IS NULL AND session_id IS NULL
                                    ORDER BY created_at, id LIMIT 1) AS owner_id
                UNION ALL SELECT 2, (SELECT min(owner_id) FROM sessions WHERE status <> 'ended')
                UNION ALL SELECT 3, (SELECT min(owner_id) FROM sessions WHERE owner_id IS NOT NULL)) AS owners
            WHERE owner_id IS NOT NULL ORDER BY place LIMIT 1";
        sqlx::query_scalar(sql).fetch_optional(self.reader()).await.at(self)
    }

    /// Revokes a token; false when there is none of that id, or it is revoked already.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn revoke_token(&self, id: &Id, at: UtcMs) -> Result<bool, StoreError> {
        let sql = "UPDATE tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
        let query = sqlx::query(sql).bind(id.as_str()).bind(at.0);
        Ok(query.execute(self.writer()).await.at(self)?.rows_affected() == 1)
    }
}
