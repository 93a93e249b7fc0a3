//! The session in the path, if it is the caller's.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use crate::api::access::Caller;
use crate::api::error::{ApiError, ErrorCode};
use crate::api::state::Shared;
use crate::session::{Id, Session};

/// A session of the caller's. Taken before the body, so that nothing about somebody else's session can be learned from
/// how a body is refused.
pub(super) struct Owned(pub(super) Session);

impl FromRequestParts<Shared> for Owned {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, api).await?;
        let id = id(parts, api).await?;
        let session = api.tools().store.find_session(&id).await?;
        session.filter(|session| api.owns(&caller.owner, session)).map(Self).ok_or_else(ApiError::not_found)
    }
}

/// Reads the id in the path.
///
/// # Errors
/// 400 when it has not the shape of one.
pub(super) async fn id(parts: &mut Parts, api: &Shared) -> Result<Id, ApiError> {
    let bad = |why: String| ApiError::new(ErrorCode::BadId, why);
    let path = RawPathParams::from_request_parts(parts, api).await;
    let path = path.map_err(|_| bad("the id in the path is not text".to_owned()))?;
    let id = path.iter().find(|(name, _)| *name == "id").map(|(_, id)| id).unwrap_or_default();
    id.parse().map_err(bad)
}
