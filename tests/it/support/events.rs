//! A client of `GET /coding/events`.

use std::time::Duration;

use serde_json::Value;
use sexton::protocol::Cursor;

use crate::support::runner::{SECRET, TestRunner};
use crate::support::sse::{Got, Parser};

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    pub(crate) kind: String,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) data: Value,
}

/// A stream of them; dropping it drops the connection.
pub(crate) struct Events {
    response: reqwest::Response,
    parser: Parser,
}

impl TestRunner {
    /// Listens to a session with more of a query, such as a cursor.
    pub(crate) async fn listen(&self, id: &str, query: &str) -> Events {
        let response = self.ask_for_events(id, query).await;
        assert_eq!(response.status(), 200);
        Events { response, parser: Parser::default() }
    }

    pub(crate) async fn ask_for_events(&self, id: &str, query: &str) -> reqwest::Response {
        let path = format!("/coding/events?session_id={id}&{query}");
        self.request(reqwest::Method::GET, &path).bearer_auth(SECRET).send().await.unwrap()
    }
}

impl Events {
    /// Returns the next event; none when the stream is over.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        let next = tokio::time::timeout(Duration::from_secs(20), self.read()).await;
        next.expect("something comes, or the stream is over")
    }

    async fn read(&mut self) -> Option<Told> {
        loop {
            if let Some(got) = self.parser.take() {
                return Some(told(got));
            }
            let chunk = self.response.chunk().await.ok()??;
            self.parser.push(&chunk);
        }
    }

    /// Returns all that comes until the stream is over.
    pub(crate) async fn rest(mut self) -> Vec<Told> {
        let mut all = Vec::new();
        while let Some(told) = self.next().await {
            all.push(told);
        }
        all
    }

    /// Returns the next line, which nothing else may come before.
    pub(crate) async fn line(&mut self) -> String {
        let told = self.next().await.unwrap();
        assert_eq!(told.kind, "line", "{told:?}");
        assert_eq!(told.data["cursor"], told.cursor.unwrap().to_string());
        told.data["line"].as_str().unwrap().to_owned()
    }
}

fn told(got: Got) -> Told {
    Told { cursor: got.cursor(), kind: got.name, data: got.data }
}
