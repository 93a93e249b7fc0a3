//! Who may ask: only callers that show the runner's secret, under a name of the runner's, and no browser.

use std::path::Path;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use crate::network::Names;
use crate::protocol::FailureOutcome;
use crate::runner::Runner;
use crate::runner::http::Refused;
use crate::runner::refusal::Refusal;

/// Lets a request through, or refuses it: first by where it was sent to, then by its token.
pub(crate) async fn check(State((runner, names)): State<(Runner, Names)>, request: Request, next: Next) -> Response {
    match checked(&runner, &names, request.headers()).await {
        Ok(()) => {
            runner.hears();
            next.run(request).await
        }
        Err(refusal) => Refused(runner, refusal).into_response(),
    }
}

async fn checked(runner: &Runner, names: &Names, headers: &HeaderMap) -> Result<(), Refusal> {
    check_host(names, headers)?;
    let path = &runner.settings().secret_file;
    let secret = tokio::fs::read_to_string(path).await.unwrap_or_default();
    check_token(path, secret.trim(), headers)
}

/// A page in a browser can be made to ask any address, but not under a name of the runner's, nor without its origin.
fn check_host(names: &Names, headers: &HeaderMap) -> Result<(), Refusal> {
    let refused = |message| Err(Refusal::new(StatusCode::FORBIDDEN, FailureOutcome::BadRequest, message));
    if headers.contains_key(ORIGIN) {
        return refused("a runner answers no browser");
    }
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if is_loopback(host) || names.know(host) {
        return Ok(());
    }
    refused("the Host header names no loopback address, nor a name that the runner is called by: see runner.hosts")
}

fn is_loopback(host: &str) -> bool {
    if let Ok(address) = host.parse::<std::net::SocketAddr>() {
        return address.ip().is_loopback();
    }
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<std::net::IpAddr>() {
        return address.is_loopback();
    }
    let (name, port) = host.split_once(':').unwrap_or((host, "1"));
    name.eq_ignore_ascii_case("localhost") && port.parse::<u16>().is_ok()
}

fn check_token(path: &Path, secret: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    if secret.is_empty() {
        let message = format!("the runner's secret {} is not there or empty", path.display());
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, FailureOutcome::Unauthorised, message));
    }
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (scheme, token) = shown.split_once(' ').unwrap_or_default();
    let same = bool::from(token.trim().as_bytes().ct_eq(secret.as_bytes()));
    if scheme.eq_ignore_ascii_case("bearer") && same {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::UNAUTHORIZED, FailureOutcome::Unauthorised, "the token is missing or wrong"))
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_names_of_this_machine_are_answered_under() {
        for good in ["127.0.0.1:7118", "127.0.0.1", "127.9.9.9:1", "localhost", "LocalHost:80", "[::1]:7118", "[::1]"] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in ["", "evil.example", "127.0.0.1.evil.example", "10.0.0.1:7118", "localhost.evil:80", "localhost:x"] {
            assert!(!is_loopback(bad), "{bad}");
        }
    }
}
