//! The talk with a server that answers: the stream of its events, and one command after the other.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::{Mutex, mpsc, watch};

use crate::runner::bridge::api::{self, Api, Credentials};
use crate::runner::bridge::sse::{Came, Events};
use crate::runner::bridge::wire::{Command, Line};

/// How long the server may take to print its address and to answer: a first start may have a database to make.
const START_MOST: Duration = Duration::from_secs(120);
/// How long it may be silent before its stream counts as lost; it sends a heartbeat every ten seconds.
const SILENT_MOST: Duration = Duration::from_secs(60);
/// How soon a lost stream is asked for again, at first.
const AGAIN: Duration = Duration::from_millis(200);
/// And after many attempts.
const AGAIN_MOST: Duration = Duration::from_secs(5);

/// What of an event is read here.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    properties: Properties,
}

#[derive(Default, Deserialize)]
struct Properties {
    #[serde(default, rename = "sessionID")]
    session_id: Option<serde::de::IgnoredAny>,
}

/// One talk.
pub(crate) struct Talk {
    client: reqwest::Client,
    credentials: Credentials,
    api: OnceLock<Api>,
    session: Mutex<Option<String>>,
}

impl Talk {
    /// Makes a talk that shows these credentials.
    ///
    /// # Errors
    /// One sentence, when there is no way to talk.
    pub(crate) fn new(credentials: Credentials) -> Result<Self, String> {
        Ok(Self { client: api::client()?, credentials, api: OnceLock::new(), session: Mutex::new(None) })
    }

    /// Talks with the server once it has told its address; returns only when that cannot go on, with the reason.
    pub(crate) async fn go(&self, url: watch::Receiver<Option<String>>, commands: mpsc::Receiver<Command>) -> String {
        let met = tokio::time::timeout(START_MOST, self.meet(url)).await;
        let api = match met.unwrap_or_else(|_| Err("the server did not answer in time".to_owned())) {
            Ok(api) => api,
            Err(why) => return why,
        };
        // Before any session is opened, so that none of its events is missed.
        let stream = match api.events().await {
            Ok(stream) => stream,
            Err(why) => return format!("the server gives no events: {why}"),
        };
        tokio::select! {
            why = self.obey(api, commands) => why,
            () = follow(api, stream) => "the stream of events cannot be followed".to_owned(),
        }
    }

    /// Aborts whatever is at work.
    pub(crate) async fn abort_all(&self) {
        let Some(api) = self.api.get() else { return };
        for id in api.working().await.unwrap_or_default() {
            let _ = api.abort(&id).await;
        }
    }

    async fn meet(&self, mut url: watch::Receiver<Option<String>>) -> Result<&Api, String> {
        let url = match url.wait_for(Option::is_some).await {
            Ok(url) => url.clone().unwrap_or_default(),
            // Its output has ended; that it ends as well is noticed elsewhere.
            Err(_) => std::future::pending().await,
        };
        let api = self.api.get_or_init(|| Api::new(self.client.clone(), self.credentials.clone(), url));
        while let Err(why) = api.working().await {
            if why.contains(" 401 ") {
                return Err(format!("the server does not take its secret: {why}"));
            }
            tokio::time::sleep(AGAIN).await;
        }
        Ok(api)
    }

    async fn obey(&self, api: &Api, mut commands: mpsc::Receiver<Command>) -> String {
        while let Some(command) = commands.recv().await {
            if let Err(why) = self.one(api, command).await {
                return why;
            }
        }
        // The input has ended, which is noticed elsewhere.
        std::future::pending().await
    }

    /// Does what one command says. Only a conversation that cannot be opened is an error.
    async fn one(&self, api: &Api, command: Command) -> Result<(), String> {
        match command {
            Command::Open { session_id } => self.open(api, session_id.as_deref()).await?,
            Command::Clear => {
                let old = self.session.lock().await.clone();
                if let Some(old) = old {
                    refused("abort", api.abort(&old).await);
                }
                self.open(api, None).await?;
            }
            Command::Message { text } => match self.session.lock().await.as_deref() {
                Some(id) => refused("message", api.prompt(id, &text).await),
                None => refused("message", Err("no session is open".to_owned())),
            },
            Command::Abort { session_id } => {
                let open = self.session.lock().await.clone();
                if let Some(id) = session_id.or(open) {
                    refused("abort", api.abort(&id).await);
                }
            }
            Command::Status => match api.working().await {
                Ok(working) => say(&Line::Status { working, asking: None }),
                Err(why) => refused("status", Err(why)),
            },
        }
        Ok(())
    }

    /// A conversation that is not there is not replaced by a fresh one behind a person's back.
    async fn open(&self, api: &Api, wanted: Option<&str>) -> Result<(), String> {
        let opened = match wanted {
            Some(id) => api.take_up(id).await.map_err(|why| format!("the session {id} cannot be taken up: {why}")),
            None => api.create().await.map_err(|why| format!("no session can be begun: {why}")),
        };
        if let Err(why) = &opened {
            refused("open", Err(why.clone()));
        }
        let session_id = opened?;
        *self.session.lock().await = Some(session_id.clone());
        say(&Line::Ready { session_id, url: api.url.clone() });
        Ok(())
    }
}

/// Passes the events on for as long as the server lives.
async fn follow(api: &Api, mut stream: reqwest::Response) {
    loop {
        let message = pass_on(&mut stream).await;
        say(&Line::Lost { message });
        stream = again(api).await;
        // What happened meanwhile is not told any more, so its outcome is.
        match (api.working().await, api.asking().await) {
            (Ok(working), Ok(asking)) => say(&Line::Status { working, asking: Some(asking) }),
            (Err(why), _) | (_, Err(why)) => refused("status", Err(why)),
        }
    }
}

async fn again(api: &Api) -> reqwest::Response {
    let mut wait = AGAIN;
    loop {
        tokio::time::sleep(wait).await;
        match api.events().await {
            Ok(stream) => return stream,
            Err(_) => wait = (wait * 2).min(AGAIN_MOST),
        }
    }
}

/// Passes the events of one stream on until it breaks off, and returns why it did.
async fn pass_on(stream: &mut reqwest::Response) -> String {
    let mut events = Events::default();
    loop {
        match tokio::time::timeout(SILENT_MOST, stream.chunk()).await {
            Ok(Ok(Some(bytes))) => events.take(&bytes).into_iter().for_each(event),
            Ok(Ok(None)) => return "the server closed it".to_owned(),
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return "the server fell silent".to_owned(),
        }
    }
}

fn event(came: Came) {
    let Came::Data(data) = came else { return say(&Line::Dropped) };
    let Ok(event) = serde_json::from_str::<Event>(&data) else { return say(&Line::Dropped) };
    // Heartbeats and the server's own affairs are nobody's work; an error may be told without its session.
    if event.properties.session_id.is_some() || event.kind == "session.error" {
        // A line end can stand only between the parts of a JSON text.
        write_line(&format!("{{\"type\":\"event\",\"event\":{}}}", data.replace(['\r', '\n'], " ")));
    }
}

fn refused(command: &str, done: Result<(), String>) {
    if let Err(message) = done {
        say(&Line::Refused { command: command.to_owned(), message });
    }
}

fn say(line: &Line) {
    if let Ok(text) = serde_json::to_string(line) {
        write_line(&text);
    }
}

/// A reader that is gone ends an engine anyway.
fn write_line(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
