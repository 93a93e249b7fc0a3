//! API tokens: only their hashes are kept.

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
}

#[derive(FromRow)]
struct TokenRow {
    id: String,
    hash: String,
    owner_id: String,
    scope: String,
    created_at: i64,
    revoked_at: Option<i64>,
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
        })
    }
}

impl Store {
    /// Inserts a token.
    ///
    /// # Errors
    /// When the store fails, or has that id or hash already.
    pub async fn insert_token(&self, token: &Token) -> Result<(), StoreError> {
        let sql = "INSERT INTO tokens (id, hash, owner_id, scope, created_at, revoked_at)
                   VALUES ($1, $2, $3, $4, $5, $6)";
        let query = sqlx::query(sql)
            .bind(token.id.as_str())
            .bind(&token.hash)
            .bind(&token.owner_id)
            .bind(&token.scope)
            .bind(token.created_at.0)
            .bind(token.revoked_at.map(|t| t.0));
        query.execute(self.writer()).await.at(self)?;
        Ok(())
    }

    /// Finds the token with that hash, unless it is revoked.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_token(&self, hash: &str) -> Result<Option<Token>, StoreError> {
        let sql = "SELECT id, hash, owner_id, scope, created_at, revoked_at FROM tokens
                   WHERE hash = $1 AND revoked_at IS NULL";
        self.read_one(sqlx::query_as::<_, TokenRow>(sql).bind(hash).fetch_optional(self.reader()).await)
    }

    /// Lists all tokens, revoked ones included, in the order of their making.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_tokens(&self) -> Result<Vec<Token>, StoreError> {
        let sql = "SELECT id, hash, owner_id, scope, created_at, revoked_at FROM tokens ORDER BY created_at, id";
        self.read_all(sqlx::query_as::<_, TokenRow>(sql).fetch_all(self.reader()).await)
    }

    /// Counts the tokens that are not revoked.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn count_tokens(&self) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM tokens WHERE revoked_at IS NULL";
        let count: i64 = sqlx::query_scalar(sql).fetch_one(self.reader()).await.at(self)?;
        Ok(count.unsigned_abs())
    }

    /// Lists whose the tokens that are not revoked and the open sessions are, each owner once.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_owners(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT owner_id FROM tokens WHERE revoked_at IS NULL
                   UNION SELECT owner_id FROM sessions WHERE status <> 'ended' AND owner_id IS NOT NULL
                   ORDER BY owner_id";
        sqlx::query_scalar(sql).fetch_all(self.reader()).await.at(self)
    }

    /// Finds whose store this is: the owner of a token that is not revoked, else of an open session, else of any; none when
    /// it is nobody's yet.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find_owner(&self) -> Result<Option<String>, StoreError> {
        let sql = "SELECT owner_id FROM (
                SELECT 1 AS place, owner_id FROM tokens WHERE revoked_at IS NULL
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
