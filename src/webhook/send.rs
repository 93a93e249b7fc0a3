//! One attempt to hand a message to a receiver.

use std::error::Error;

use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;

use crate::time::Span;

/// A signed message.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Its id, the same in every attempt.
    pub id: &'a str,
    /// When this attempt is made, in seconds since 1970.
    pub seconds: i64,
    /// What the receiver compares.
    pub signature: &'a str,
    /// The JSON that was signed.
    pub body: &'a [u8],
}

/// Why a receiver did not get a message, or did not take it. Each is one sentence that does not show the URL, which may hold a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It answered something else than success.
    Refused(String),
    /// It could not be reached, or did not answer in time: another message would fare no better now.
    Unreachable(String),
    /// It could not be signed, so nothing was sent: another message would fare no better now.
    Unsigned(String),
}

impl Failure {
    /// Returns the sentence.
    #[must_use]
    pub fn why(&self) -> &str {
        let (Self::Refused(why) | Self::Unreachable(why) | Self::Unsigned(why)) = self;
        why
    }
}

/// Sends messages.
///
/// It follows no redirect, uses no proxy, keeps no cookies, and reads nothing of an answer but its status.
#[derive(Debug, Clone)]
pub struct Sender {
    client: reqwest::Client,
}

impl Sender {
    /// Makes one whose attempts take `limit` at most, connecting included.
    ///
    /// # Errors
    /// One sentence, when the HTTP library cannot be set up.
    pub fn new(limit: Span) -> Result<Self, String> {
        // A second installation is refused, and then the first one serves.
        drop(rustls::crypto::ring::default_provider().install_default());
        let builder = || {
            reqwest::Client::builder()
                .user_agent(concat!("sexton/", env!("CARGO_PKG_VERSION")))
                .redirect(Policy::none())
                .referer(false)
                .no_proxy()
                .timeout(limit.as_std())
        };
        // A machine without certificates of authorities can still send over http.
        let client = builder().build().or_else(|_| builder().tls_certs_only([]).build());
        let client = client.map_err(|error| format!("the HTTP client cannot be set up: {}", root(&error)))?;
        Ok(Self { client })
    }

    /// Makes one attempt.
    ///
    /// # Errors
    /// When the receiver did not answer with a status of success.
    pub async fn send(&self, url: &str, message: &Message<'_>) -> Result<(), Failure> {
        let request = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("Webhook-Id", message.id)
            .header("Webhook-Timestamp", message.seconds)
            .header("Webhook-Signature", message.signature)
            .body(message.body.to_vec());
        let status = request.send().await.map_err(|error| failure(&error))?.status();
        if status.is_success() {
            return Ok(());
        }
        let followed = if status.is_redirection() { "; redirects are not followed" } else { "" };
        Err(Failure::Refused(format!("the receiver answered {}{followed}", status.as_u16())))
    }
}

fn failure(error: &reqwest::Error) -> Failure {
    if error.is_builder() {
        return Failure::Refused(format!("the request cannot be made: {}", root(error)));
    }
    Failure::Unreachable(match (error.is_timeout(), error.is_connect()) {
        (true, true) => "no connection to the receiver in time".to_owned(),
        (true, false) => "the receiver did not answer in time".to_owned(),
        (false, true) => format!("no connection to the receiver: {}", root(error)),
        (false, false) => format!("the receiver gave no answer: {}", root(error)),
    })
}

/// Returns the innermost cause, which says most and names no URL.
fn root(error: &reqwest::Error) -> String {
    let mut cause: Option<&dyn Error> = error.source();
    while let Some(inner) = cause.and_then(Error::source) {
        cause = Some(inner);
    }
    cause.map_or_else(|| "unknown error".to_owned(), ToString::to_string)
}
