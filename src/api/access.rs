//! Who calls, and what they may do: the token in the Authorization header, looked up at each request.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::error::{ApiError, ErrorCode};
use crate::api::hosts::single;
use crate::api::state::{Api, Shared};
use crate::session::{Id, Session};
use crate::store::SessionFilter;
use crate::token::{self, Scope, Scopes};

/// Whoever shows a token that holds.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// Whose sessions it opens.
    pub(super) owner: String,
    /// The one session that it may keep, where it is that one's engine.
    pub(super) lease: Option<Id>,
    scopes: Scopes,
}

impl Caller {
    /// Returns whether the sessions of all owners are open to it.
    pub(super) fn sees_all(&self) -> bool {
        self.scopes.allow(Scope::Admin)
    }

    /// Returns whether a session is open to it; a row without an owner is the configured one's. To an engine only its own is.
    pub(super) fn may_see(&self, api: &Api, session: &Session) -> bool {
        if let Some(lease) = &self.lease {
            return *lease == session.id;
        }
        self.sees_all() || session.owner_id.as_deref().unwrap_or(&api.owner) == self.owner
    }

    /// Returns which sessions lists show it.
    pub(super) fn filter(&self, api: &Api) -> SessionFilter {
        if self.sees_all() {
            return SessionFilter::default();
        }
        let (owner, ownerless_too) = (Some(self.owner.clone()), self.owner == api.owner);
        SessionFilter { owner, ownerless_too, ..SessionFilter::default() }
    }
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
    Ok(Caller { owner: row.owner_id, lease: row.lease.map(|(session, _)| session), scopes })
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

impl FromRequestParts<Shared> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, ApiError> {
        // A handler that nobody was let in to would be a fault in the table of routes; it is refused all the same.
        let unknown = || ApiError::new(ErrorCode::Unauthorised, "nobody was let in here");
        parts.extensions.get::<Self>().cloned().ok_or_else(unknown)
    }
}
