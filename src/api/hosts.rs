//! Who may be addressed, and from where: the guard against pages of other sites and names that point here.
//!
//! A page in a browser can send requests to this machine, and a name of a stranger may resolve to it. So the Host header
//! must be a loopback name of the very address that is listened on, letter by letter, and an Origin, where there is one,
//! must be that of this server. Neither gives a right: the token does.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::error::{ApiError, ErrorCode};
use crate::api::state::Shared;

/// The names under which this server may be called.
#[derive(Debug, Clone)]
pub(super) struct Hosts(Arc<[String]>);

impl Hosts {
    /// Makes the list for the address that is listened on.
    pub(super) fn of(address: SocketAddr) -> Self {
        let port = address.port();
        let names = ["127.0.0.1", "[::1]", "localhost"];
        Self(names.iter().flat_map(|name| [(*name).to_owned(), format!("{name}:{port}")]).collect())
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = single(headers, &header::HOST).filter(|host| self.knows(host));
        let target = uri.authority().is_none_or(|authority| self.knows(authority.as_str()));
        let Some(host) = host.filter(|_| target) else {
            let message = format!("this server is called {}; the Host header says otherwise", self.0.join(" or "));
            return Err(ApiError::new(ErrorCode::Host, message));
        };
        if headers.contains_key(header::ORIGIN) {
            let same = single(headers, &header::ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
            if same != Some(host) {
                return Err(ApiError::new(ErrorCode::Origin, "requests from pages of other sites are not served"));
            }
        }
        Ok(())
    }

    fn knows(&self, host: &str) -> bool {
        self.0.iter().any(|known| known == host)
    }
}

/// Returns the value of a header that stands there exactly once.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Lets only requests through that are meant for this server and do not come from another site's page.
pub(super) async fn guard(State(api): State<Shared>, request: Request, next: Next) -> Response {
    match api.hosts.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uri: &str, pairs: &[(&'static str, &'static str)]) -> Result<(), ErrorCode> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        let hosts = Hosts::of("127.0.0.1:7117".parse().unwrap());
        hosts.check(&uri.parse().unwrap(), &headers).map_err(|error| error.code)
    }

    #[test]
    fn loopback_names_are_known_with_and_without_the_port() {
        for host in ["127.0.0.1", "127.0.0.1:7117", "localhost", "localhost:7117", "[::1]", "[::1]:7117"] {
            assert_eq!(check("/healthz", &[("host", host)]), Ok(()), "{host}");
        }
    }

    #[test]
    fn every_other_host_is_refused() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "localhost.",
            "LOCALHOST",
            "localhost:7118",
            "localhost:",
            "user@localhost",
            "127.0.0.2",
            "0.0.0.0:7117",
            "::1",
            "",
        ] {
            assert_eq!(check("/healthz", &[("host", host)]), Err(ErrorCode::Host), "{host}");
        }
        assert_eq!(check("/healthz", &[]), Err(ErrorCode::Host), "absent");
        assert_eq!(check("/healthz", &[("host", "localhost"), ("host", "localhost")]), Err(ErrorCode::Host), "twice");
        assert_eq!(check("http://evil.example/healthz", &[("host", "localhost")]), Err(ErrorCode::Host), "target");
    }

    #[test]
    fn an_origin_must_be_this_server() {
        let with = |origin| check("/", &[("host", "localhost:7117"), ("origin", origin)]);
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
