//! Who may be addressed, and from where: the guard against pages of other sites and names that point here.
//!
//! The Host header must name this server ([`Names`]), and an Origin, where there is one, must be that of the request. Neither
//! gives a right: the token does.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::error::{ApiError, ErrorCode};
use crate::api::state::Shared;
use crate::network::Names;

fn check(names: &Names, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let host = single(headers, &header::HOST).filter(|host| names.know(host));
    let target = uri.authority().is_none_or(|authority| names.know(authority.as_str()));
    let Some(host) = host.filter(|_| target) else {
        let message = format!("this server is called {}; the Host header says otherwise", names.shown());
        return Err(ApiError::new(ErrorCode::Host, message));
    };
    if headers.contains_key(header::ORIGIN)
        && !single(headers, &header::ORIGIN).is_some_and(|origin| names.are_origin(origin, host))
    {
        return Err(ApiError::new(ErrorCode::Origin, "requests from pages of other sites are not served"));
    }
    Ok(())
}

/// Returns the value of a header that stands there exactly once.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Lets only requests through that are meant for this server and do not come from another site's page.
pub(super) async fn guard(State(api): State<Shared>, request: Request, next: Next) -> Response {
    match check(&api.names, request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(uri: &str, pairs: &[(&'static str, &'static str)]) -> Result<(), ErrorCode> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        let names = Names::new("127.0.0.1:7117".parse().unwrap(), &[], false);
        check(&names, &uri.parse().unwrap(), &headers).map_err(|error| error.code)
    }

    #[test]
    fn loopback_names_are_known_with_and_without_the_port() {
        for host in ["127.0.0.1", "127.0.0.1:7117", "localhost", "localhost:7117", "[::1]", "[::1]:7117"] {
            assert_eq!(checked("/healthz", &[("host", host)]), Ok(()), "{host}");
        }
    }

    #[test]
    fn every_other_host_is_refused() {
        assert_eq!(checked("/healthz", &[("host", "evil.example")]), Err(ErrorCode::Host));
        assert_eq!(checked("/healthz", &[]), Err(ErrorCode::Host), "absent");
        assert_eq!(checked("/healthz", &[("host", "localhost"), ("host", "localhost")]), Err(ErrorCode::Host), "twice");
        assert_eq!(checked("http://evil.example/healthz", &[("host", "localhost")]), Err(ErrorCode::Host), "target");
    }

    #[test]
    fn an_origin_must_be_this_server() {
        let with = |origin| checked("/", &[("host", "localhost:7117"), ("origin", origin)]);
        assert_eq!(with("http://localhost:7117"), Ok(()));
        for origin in [
            "null",
            "http://localhost",
            "http://127.0.0.1:7117",
            "https://localhost:7117",
            "http://localhost:7117.evil.example",
            "http://evil.example",
            "",
        ] {
            assert_eq!(with(origin), Err(ErrorCode::Origin), "{origin}");
        }
    }
}
