//! A client of `GET /coding/events`.

use serde_json::Value;
use sexton::protocol::Cursor;

use crate::support::sse::Parser;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) kind: String,
    pub(crate) cursor: Option<Cursor>,
    pub(crate) data: Value,
}

/// A stream that is being read; dropping it hangs up.
pub(crate) struct Stream {
    answer: reqwest::Response,
    parser: Parser,
}

/// A place in what the engine wrote that was launched at a session's first start.
pub(crate) fn at(offset: u64) -> Cursor {
    Cursor { start: 1, offset }
}

/// Returns the path of a session's events.
pub(crate) fn events(id: &str, cursor: Cursor) -> String {
    format!("/coding/events?session_id={id}&cursor={cursor}")
}

impl Stream {
    /// Sends the request; none when it is not answered, or refused.
    pub(crate) async fn open(request: reqwest::RequestBuilder) -> Option<Self> {
        let answer = request.send().await.ok().filter(|answer| answer.status().is_success())?;
        Some(Self { answer, parser: Parser::default() })
    }

    /// Returns the next whole event; none when the connection is over.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        loop {
            if let Some(got) = self.parser.take() {
                return Some(Heard { cursor: got.cursor(), kind: got.name, data: got.data });
            }
            let chunk = self.answer.chunk().await.ok()??;
            self.parser.push(&chunk);
        }
    }

    /// Reads to the end of the connection.
    pub(crate) async fn rest(&mut self) -> Vec<Heard> {
        let mut all = Vec::new();
        while let Some(one) = self.next().await {
            all.push(one);
        }
        all
    }
}
