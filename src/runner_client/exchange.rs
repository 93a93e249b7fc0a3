//! One request and its whole answer, within its limits of time and size.

use std::time::Duration;

use reqwest::header::{AGE, CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;

use crate::protocol::tracked::Answer;
use crate::runner_client::secret::Secret;
use crate::runner_client::{NoAnswer, Target, reach};

/// A question, ready to be sent.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) method: Method,
    /// Path and query, from the base URL on.
    pub(super) path: String,
    pub(super) body: Option<Vec<u8>>,
    /// How long it may take, from connecting to the last byte.
    pub(super) within: Duration,
}

impl Question {
    /// Makes a `GET`.
    pub(super) fn get(path: String, within: Duration) -> Self {
        Self { method: Method::GET, path, body: None, within }
    }

    /// Makes a `POST` of a JSON body.
    pub(super) fn post<T: Serialize>(path: &str, body: &T, within: Duration) -> Result<Self, NoAnswer> {
        let body = serde_json::to_vec(body).map_err(|error| NoAnswer::Unanswered(format!("nothing asked: {error}")))?;
        Ok(Self { method: Method::POST, path: path.to_owned(), body: Some(body), within })
    }
}

/// An answer, read whole.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    content_encoding: Option<String>,
    age: Option<String>,
    pub(super) body: Vec<u8>,
}

impl Reply {
    /// Makes an answer without headers, for tests of what it reads as.
    #[cfg(test)]
    pub(super) fn of(status: u16, body: &str) -> Self {
        Self { status, body: body.as_bytes().to_vec(), ..Self::default() }
    }

    /// Returns it as the reading of a tracked set takes it.
    pub(super) fn as_answer(&self) -> Answer<'_> {
        Answer {
            status: self.status,
            content_type: self.content_type.as_deref(),
            content_encoding: self.content_encoding.as_deref(),
            age: self.age.as_deref(),
            body: &self.body,
        }
    }

    /// Says what it is, for a sentence about an answer that fits nothing.
    pub(super) fn odd(&self) -> NoAnswer {
        NoAnswer::Unrecognised(format!("the answer, with status {}, is none of the protocol's", self.status))
    }
}

/// What a question for events was answered with.
#[derive(Debug)]
pub(super) enum Opened {
    /// Events, none of which was read yet.
    Events(Response),
    /// Something else, read whole.
    Refused(Reply),
}

/// Joins a runner's base URL with a path of the protocol. The base is read on its own, so that a base without a host does
/// not take the path's first word for one.
fn locate(base: &str, path: &str) -> Result<Url, NoAnswer> {
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    let located = Url::parse(base)
        .ok()
        .filter(is_web)
        .and_then(|base| Url::parse(&format!("{}{path}", base.as_str().trim_end_matches('/'))).ok());
    located.ok_or_else(|| NoAnswer::Unanswered("its URL is none such as http://host:7118".to_owned()))
}

/// The client and its limits.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    pub(super) client: Client,
    pub(super) connect_timeout: Duration,
    /// The most bytes of an answer that are read.
    pub(super) response_bytes: usize,
}

impl Exchange {
    /// Sends a question and reads the whole answer; a refused secret is no answer.
    pub(super) async fn ask(&self, target: &Target, question: Question) -> Result<Reply, NoAnswer> {
        let within = question.within;
        let request = self.request(target, question).await?.timeout(within);
        match request.send().await {
            Ok(response) => self.read(response).await,
            Err(error) => Err(reach::classify(error, self.connect_timeout).await),
        }
    }

    /// Sends a question whose answer is events without an end: only what comes before them is bounded in time.
    pub(super) async fn open(&self, target: &Target, question: Question) -> Result<Opened, NoAnswer> {
        let late = || NoAnswer::Unanswered("the runner did not answer in time".to_owned());
        let within = question.within;
        let opening = async {
            let request = self.request(target, question).await?;
            let response = match request.send().await {
                Ok(response) => response,
                Err(error) => return Err(reach::classify(error, self.connect_timeout).await),
            };
            let says = |name: HeaderName, value: &str| {
                response.headers().get(name).and_then(|it| it.to_str().ok()).is_some_and(|it| it.starts_with(value))
            };
            if response.status() != StatusCode::OK {
                return self.read(response).await.map(Opened::Refused);
            }
            let plain = !response.headers().contains_key(CONTENT_ENCODING) || says(CONTENT_ENCODING, "identity");
            if !plain || !says(CONTENT_TYPE, "text/event-stream") {
                return Err(NoAnswer::Unrecognised("the answer is no stream of events".to_owned()));
            }
            Ok(Opened::Events(response))
        };
        tokio::time::timeout(within, opening).await.unwrap_or_else(|_| Err(late()))
    }

    async fn request(&self, target: &Target, question: Question) -> Result<RequestBuilder, NoAnswer> {
        let url = locate(&target.url, &question.path)?;
        let mut request = self.client.request(question.method, url);
        if let Some(file) = &target.token_file {
            request = request.bearer_auth(Secret::read(file).await?.expose());
        }
        if let Some(body) = question.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        Ok(request)
    }

    async fn read(&self, mut response: Response) -> Result<Reply, NoAnswer> {
        let status = response.status().as_u16();
        if matches!(status, 401 | 403) {
            let what = if status == 403 {
                "the name in its URL (see runner.hosts there), or the secret"
            } else {
                "the secret"
            };
            return Err(NoAnswer::Unauthorised(format!("the runner refuses {what}, with status {status}")));
        }
        let header = |name: HeaderName| {
            response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let (content_type, content_encoding, age) = (header(CONTENT_TYPE), header(CONTENT_ENCODING), header(AGE));
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(None) => return Ok(Reply { status, content_type, content_encoding, age, body }),
                Ok(Some(chunk)) if chunk.len() > self.response_bytes.saturating_sub(body.len()) => {
                    return Err(NoAnswer::Unrecognised(format!(
                        "the answer is larger than {} bytes",
                        self.response_bytes
                    )));
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Err(error) if error.is_timeout() => {
                    let got = body.len();
                    return Err(NoAnswer::Unanswered(format!("the answer did not end in time, after {got} bytes")));
                }
                Err(error) => {
                    return Err(NoAnswer::Unrecognised(format!(
                        "the answer was cut off after {} bytes: {}",
                        body.len(),
                        reach::root(&error)
                    )));
                }
            }
        }
    }
}
