//! Who calls, and what they may do: the token in the Authorization header, looked up at each request.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::error::{ApiError, ErrorCode};
use crate::api::hosts::single;
use crate::api::state::{Api, Shared};
use crate::token::{self, Scope, Scopes};

/// Whoever shows a token that holds.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// Whose sessions it opens.
    pub(super) owner: String,
    scopes: Scopes,
}

/// Finds out who calls.
///
/// # Errors
/// 401, the same whether there is no token, one of another shape, an unknown or a revoked one; 503 when the store fails.
pub(super) async fn authenticate(api: &Api, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let refused = || {
        let message = "a token is needed: Authorization: Bearer TOKEN; `sexton tokens create` makes one";
        ApiError::new(ErrorCode::Unauthorised, message)
    };
    let hash = token::hash(bearer(headers).ok_or_else(refused)?);
    let found = api.tools().store.find_token(&hash).await?;
    let row = found.filter(|row| token::same_hash(&row.hash, &hash)).ok_or_else(refused)?;
    let scopes = row.scope.parse().map_err(|_| refused())?;
    Ok(Caller { owner: row.owner_id, scopes })
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, secret) = single(headers, &header::AUTHORIZATION)?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !secret.trim().is_empty()).then(|| secret.trim())
}

/// Lets only those through whose token allows `scope`, and tells the handler who calls.
pub(super) async fn require(State((api, scope)): State<(Shared, Scope)>, mut request: Request, next: Next) -> Response {
    match authenticate(&api, request.headers()).await {
        Ok(caller) if caller.scopes.allow(scope) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Ok(_) => ApiError::new(ErrorCode::Scope, format!("this needs a token of scope {scope}")).into_response(),
        Err(error) => error.into_response(),
    }
}

impl Caller {
    /// Returns whether the token allows this.
    pub(super) fn allows(&self, scope: Scope) -> bool {
        self.scopes.allow(scope)
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, ApiError> {
        // A handler that nobody was let in to would be a fault in the table of routes; it is refused all the same.
        let unknown = || ApiError::new(ErrorCode::Unauthorised, "nobody was let in here");
        parts.extensions.get::<Self>().cloned().ok_or_else(unknown)
    }
}
