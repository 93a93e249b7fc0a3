//! Bodies and queries: read strictly, refused in the one shape.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query as AxumQuery, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;

use crate::api::error::{ApiError, ErrorCode};
use crate::api::hosts::single;
use crate::api::state::Shared;

/// The most bytes of a body that are read.
pub(super) const LONGEST_BODY: usize = 1 << 20;

/// A JSON body; an absent one reads as `{}`.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Shared> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Shared) -> Result<Self, ApiError> {
        let said = single(request.headers(), &header::CONTENT_TYPE).is_some_and(is_json);
        let bytes = Bytes::from_request(request, api).await.map_err(|rejection| {
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                ApiError::new(ErrorCode::TooLarge, format!("the body is longer than {LONGEST_BODY} bytes"))
            } else {
                ApiError::new(ErrorCode::BadBody, "the body could not be read to its end")
            }
        })?;
        if !said && !bytes.is_empty() {
            let message = "the body must be JSON and say so: Content-Type: application/json";
            return Err(ApiError::new(ErrorCode::MediaType, message));
        }
        read(&bytes).map(Self).map_err(|why| ApiError::new(ErrorCode::BadBody, why))
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let text = if bytes.is_empty() { b"{}" } else { bytes };
    // A list would be read as the fields in their order.
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err("the body must be one JSON object".to_owned());
    }
    serde_json::from_slice(text).map_err(|error| format!("the body is not as expected: {error}"))
}

fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// A query.
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Shared) -> Result<Self, ApiError> {
        match AxumQuery::<T>::from_request_parts(parts, api).await {
            Ok(AxumQuery(query)) => Ok(Self(query)),
            Err(rejection) => {
                let text = rejection.body_text();
                let why = text.split_once(": ").map_or(text.as_str(), |(_, why)| why);
                Err(ApiError::new(ErrorCode::BadQuery, format!("the query is not as expected: {why}")))
            }
        }
    }
}

/// The body of a request that needs none.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}
