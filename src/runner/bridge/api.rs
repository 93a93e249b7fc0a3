//! The few calls of OpenCode's HTTP interface that a bridge needs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response};
use serde::Deserialize;
use serde_json::{Value, json};

/// The variable that gives the server its secret.
pub(crate) const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";
/// The variable that gives it the name that goes with it.
const USERNAME: &str = "OPENCODE_SERVER_USERNAME";
/// That name without the variable.
const USERNAME_DEFAULT: &str = "opencode";
/// How long a call may take.
const CALL_MOST: Duration = Duration::from_secs(30);

/// What callers of the server show.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    username: String,
    password: String,
}

impl Credentials {
    /// Takes what the environment gives, so that a person who set it can attach to the server; else a random secret.
    /// Returns the secret as well.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub(crate) fn make() -> Result<(Self, String), getrandom::Error> {
        let given = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let password = match given(PASSWORD) {
            Some(password) => password,
            None => random()?,
        };
        let username = given(USERNAME).unwrap_or_else(|| USERNAME_DEFAULT.to_owned());
        Ok((Self { username, password: password.clone() }, password))
    }
}

fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// A server at its address.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    client: Client,
    credentials: Credentials,
    /// Where it answers.
    pub(crate) url: String,
}

/// What is said of a session that is at work or not.
#[derive(Deserialize)]
struct Status {
    #[serde(rename = "type")]
    kind: String,
}

/// A question that waits for an answer.
#[derive(Deserialize)]
struct Asking {
    id: String,
    #[serde(rename = "sessionID")]
    session_id: String,
}

#[derive(Deserialize)]
struct Session {
    id: String,
}

/// Makes the client for a server on this machine.
///
/// # Errors
/// One sentence, when there can be none.
pub(crate) fn client() -> Result<Client, String> {
    // The client wants one, though nothing here is encrypted.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder().no_proxy().build().map_err(|error| format!("there is no HTTP client: {error}"))
}

impl Api {
    /// Makes the interface of the server at `url`.
    #[must_use]
    pub(crate) fn new(client: Client, credentials: Credentials, url: String) -> Self {
        Self { client, credentials, url }
    }

    /// Begins a session, and returns its id.
    pub(crate) async fn create(&self) -> Result<String, String> {
        let session: Session = read(self.call(Method::POST, "/session", Some(json!({}))).await?).await?;
        Ok(session.id)
    }

    /// Takes a session up that is to be there, and returns its id.
    pub(crate) async fn take_up(&self, id: &str) -> Result<String, String> {
        let session: Session = read(self.call(Method::GET, &of(id, "")?, None).await?).await?;
        if session.id == id { Ok(session.id) } else { Err(format!("the server answered with {:?}", session.id)) }
    }

    /// Hands the session a person's message.
    pub(crate) async fn prompt(&self, id: &str, text: &str) -> Result<(), String> {
        let body = json!({"parts": [{"type": "text", "text": text}]});
        self.call(Method::POST, &of(id, "/prompt_async")?, Some(body)).await.map(drop)
    }

    /// Aborts what the session does.
    pub(crate) async fn abort(&self, id: &str) -> Result<(), String> {
        self.call(Method::POST, &of(id, "/abort")?, None).await.map(drop)
    }

    /// Returns which sessions are at work.
    pub(crate) async fn working(&self) -> Result<Vec<String>, String> {
        let all: BTreeMap<String, Status> = read(self.call(Method::GET, "/session/status", None).await?).await?;
        Ok(all.into_iter().filter(|(_, status)| status.kind != "idle").map(|(id, _)| id).collect())
    }

    /// Returns the questions that wait for an answer, with the sessions that ask.
    pub(crate) async fn asking(&self) -> Result<BTreeMap<String, String>, String> {
        let mut all = BTreeMap::new();
        for path in ["/permission", "/question"] {
            let some: Vec<Asking> = read(self.call(Method::GET, path, None).await?).await?;
            all.extend(some.into_iter().map(|one| (one.id, one.session_id)));
        }
        Ok(all)
    }

    /// Opens the stream of events.
    pub(crate) async fn events(&self) -> Result<Response, String> {
        let answer = self.request(Method::GET, "/event").header("accept", "text/event-stream").send();
        let answer = tokio::time::timeout(CALL_MOST, answer).await.map_err(|_| "no answer in time".to_owned())?;
        checked(answer.map_err(|error| plain(&error))?).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        request.basic_auth(&self.credentials.username, Some(&self.credentials.password))
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Response, String> {
        let mut request = self.request(method, path).timeout(CALL_MOST);
        if let Some(body) = body {
            request = request.json(&body);
        }
        checked(request.send().await.map_err(|error| plain(&error))?).await
    }
}

/// Returns the path of a session. An id that would lead elsewhere is refused.
fn of(id: &str, rest: &str) -> Result<String, String> {
    let fits = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if fits { Ok(format!("/session/{id}{rest}")) } else { Err(format!("{id:?} is no id of a session")) }
}

async fn checked(answer: Response) -> Result<Response, String> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let text = answer.text().await.unwrap_or_default();
    Err(format!("the server answered {status}: {}", text.chars().take(300).collect::<String>()))
}

async fn read<T: serde::de::DeserializeOwned>(answer: Response) -> Result<T, String> {
    answer.json().await.map_err(|error| plain(&error))
}

/// The client's own sentences end before the cause.
fn plain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        let _ = write!(text, ": {deeper}");
        cause = deeper.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_leads_elsewhere_is_no_id() {
        assert_eq!(of("ses_dd693bc0dffeywR5", "/abort").unwrap(), "/session/ses_dd693bc0dffeywR5/abort");
        for bad in ["", "../config", "a/b", "a?b", "a b", "a%2e"] {
            assert!(of(bad, "").is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_are_long_and_not_the_same() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert!(one.len() == 48 && one != other);
    }
}
