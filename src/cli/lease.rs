//! What a program inside an engine can ask of the worker: with the token in its environment, to keep its own session.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ErrorCode;
use crate::cli::Context;
use crate::protocol::variable;
use crate::session::Id;
use crate::time::{Span, UtcMs};
use crate::verbs::VerbError;

/// How long the worker may take: it asks the runner first.
const WITHIN: Duration = Duration::from_secs(60);

/// Where this runs, and with what right.
struct Lease {
    session: Id,
    token: String,
    url: String,
}

impl Lease {
    fn of(context: &Context) -> anyhow::Result<Self> {
        let variable = |name: &str| context.variable(name).filter(|value| !value.is_empty());
        let all = (variable(variable::SESSION_ID), variable(variable::TOKEN), variable(variable::URL));
        let (Some(session), Some(token), Some(url)) = all else {
            bail!(
                "name the session: without one, only an agent can keep its own, in whose environment {}, {} and {} stand",
                variable::SESSION_ID,
                variable::TOKEN,
                variable::URL
            );
        };
        let session = session.parse().map_err(|why: String| anyhow!("{}: {why}", variable::SESSION_ID))?;
        Ok(Self { session, token, url })
    }
}

/// What the worker says of the session afterwards.
#[derive(Debug, Deserialize)]
pub(crate) struct Kept {
    /// Which one it is.
    pub(crate) id: Id,
    /// Until when it is kept.
    pub(crate) keep_until: Option<UtcMs>,
    /// Why.
    pub(crate) keep_reason: Option<String>,
}

/// Keeps the session whose engine this runs in, and returns how long it is kept now.
///
/// # Errors
/// When this runs in no engine, the worker cannot be reached, or it refuses; what it says is passed on.
pub(crate) async fn keep(context: &Context, time: Span, because: &str) -> anyhow::Result<Kept> {
    let lease = Lease::of(context)?;
    let body = json!({ "for": time, "because": because });
    let url = format!("{}/v1/sessions/{}/keep", lease.url, lease.session);
    let request = client()?.post(url).bearer_auth(&lease.token).json(&body);
    let unreached = || format!("the worker at {} does not answer", lease.url);
    let response = request.send().await.map_err(reqwest::Error::without_url).with_context(unreached)?;
    if response.status().is_success() {
        return response.json().await.context("the worker's answer is none of Sexton's");
    }
    Err(refusal(&lease.session, response).await)
}

/// Reads why the worker did not do it.
async fn refusal(session: &Id, response: Response) -> anyhow::Error {
    let status = response.status();
    let body: Value = response.json().await.unwrap_or_default();
    let (code, message) = (body["error"]["code"].as_str(), body["error"]["message"].as_str());
    let is = |word: ErrorCode| code == Some(word.as_str());
    match message {
        None => anyhow!("the worker answers {status}, and nothing of Sexton's"),
        Some(_) if is(ErrorCode::Unauthorised) => {
            anyhow!("the token of this engine does not hold any more: session {session} was started anew")
        }
        Some(message) if is(ErrorCode::Invalid) => anyhow!(message.to_owned()),
        Some(message) => VerbError::Runner(message.to_owned()).into(),
    }
}

/// Speaks with the worker alone: through no proxy, and wherever it is sent from there it does not go.
fn client() -> anyhow::Result<Client> {
    // A second installation is refused, and then the first one serves.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = || Client::builder().no_proxy().redirect(Policy::none()).timeout(WITHIN);
    // A machine without certificates of authorities can still ask over `http`.
    builder().build().or_else(|_| builder().tls_certs_only([]).build()).context("the HTTP client cannot be set up")
}
