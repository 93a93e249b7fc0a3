//! Telling "no connection could be made" from every other failure of a request.
//!
//! Only the first may ever mean that a machine is gone, so it is a closed list: refused, no route, no such name, connect
//! timeout. A failed TLS handshake did connect; a lack of ports or open files is this side's own fault.

use std::error::Error;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::runner_client::NoAnswer;

/// The system's resolver, with an error that can be told from others.
pub(super) struct SystemResolver;

/// The system's resolver answered that there is no address for the name.
#[derive(Debug, thiserror::Error)]
#[error("no address for the host name {name} ({source})")]
struct NoAddress {
    name: String,
    source: std::io::Error,
}

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let addresses: Vec<SocketAddr> = match found {
                Ok(found) => found.collect(),
                // An error with a number comes from this machine's kernel, not from a name server.
                Err(source) if source.raw_os_error().is_none() => {
                    return Err(Box::new(NoAddress { name: name.as_str().to_owned(), source }) as Box<_>);
                }
                Err(source) => return Err(Box::new(source) as Box<_>),
            };
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Says in one sentence why a request got no answer, and whether a connection had been made.
pub(super) async fn classify(error: reqwest::Error, connect_timeout: Duration) -> NoAnswer {
    let url = error.url().cloned();
    let place = url.as_ref().map_or_else(|| "the runner".to_owned(), place);
    if !error.is_connect() {
        return unanswered(&place, &error);
    }
    if let Some(why) = no_connection(&error) {
        return NoAnswer::Unconnected(format!("no connection to {place}: {why}"));
    }
    if error.is_timeout() {
        // The limit on connecting covers the TLS handshake too; a handshake that hangs did connect.
        if url.as_ref().is_some_and(|url| url.scheme() == "https") && accepts(url.as_ref(), connect_timeout).await {
            return NoAnswer::Unanswered(format!("{place} accepts connections, but its TLS handshake does not end"));
        }
        return NoAnswer::Unconnected(format!("no connection to {place} within {}", seconds(connect_timeout)));
    }
    NoAnswer::Unanswered(format!("the connection to {place} failed: {}", root(&error)))
}

/// Finds, in the chain of causes, one that says for certain that no connection was made.
fn no_connection(error: &reqwest::Error) -> Option<String> {
    causes(error).find_map(|cause| {
        if let Some(no_address) = cause.downcast_ref::<NoAddress>() {
            return Some(no_address.to_string());
        }
        let kind = cause.downcast_ref::<std::io::Error>()?.kind();
        if kind == ErrorKind::ConnectionRefused {
            return Some("connection refused".to_owned());
        }
        let no_route = kind == ErrorKind::HostUnreachable || kind == ErrorKind::NetworkUnreachable;
        no_route.then(|| "no route to it".to_owned())
    })
}

fn unanswered(place: &str, error: &reqwest::Error) -> NoAnswer {
    if error.is_builder() {
        return NoAnswer::Unanswered(format!("{place} cannot be asked: {}", root(error)));
    }
    if error.is_timeout() {
        return NoAnswer::Unanswered(format!("{place} did not answer in time"));
    }
    NoAnswer::Unanswered(format!("{place} gave no answer: {}", root(error)))
}

/// Returns whether something accepts a plain connection at the address.
async fn accepts(url: Option<&reqwest::Url>, limit: Duration) -> bool {
    let Some((host, port)) = url.and_then(|url| Some((url.host_str()?, url.port_or_known_default()?))) else {
        return false;
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    matches!(tokio::time::timeout(limit, tokio::net::TcpStream::connect((host, port))).await, Ok(Ok(_)))
}

/// Names host and port alone: a URL may hold more than a report should show.
fn place(url: &reqwest::Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn seconds(limit: Duration) -> String {
    crate::time::spoken(i64::try_from(limit.as_millis()).unwrap_or(i64::MAX))
}

fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| {
        let cause: &'a (dyn Error + 'static) = *cause;
        cause.source()
    })
}

/// Returns the innermost cause, which says most.
pub(super) fn root(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| "unknown error".to_owned(), ToString::to_string)
}
