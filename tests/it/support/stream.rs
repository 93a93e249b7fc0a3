//! A client of `GET /coding/events`.

use std::collections::VecDeque;

use serde_json::Value;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) kind: String,
    pub(crate) cursor: Option<u64>,
    pub(crate) data: Value,
}

/// A stream that is being read; dropping it hangs up.
pub(crate) struct Stream {
    answer: reqwest::Response,
    bytes: Vec<u8>,
    heard: VecDeque<Heard>,
}

/// Returns the path of a session's events.
pub(crate) fn events(id: &str, cursor: u64) -> String {
    format!("/coding/events?session_id={id}&cursor={cursor}")
}

impl Stream {
    /// Sends the request; none when it is not answered, or refused.
    pub(crate) async fn open(request: reqwest::RequestBuilder) -> Option<Self> {
        let answer = request.send().await.ok().filter(|answer| answer.status().is_success())?;
        Some(Self { answer, bytes: Vec::new(), heard: VecDeque::new() })
    }

    /// Returns the next whole event; none when the connection is over.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        while self.heard.is_empty() {
            let chunk = self.answer.chunk().await.ok()??;
            self.bytes.extend_from_slice(&chunk);
            let Some(end) = self.bytes.windows(2).rposition(|two| two == b"\n\n") else { continue };
            let rest = self.bytes.split_off(end + 2);
            let whole = String::from_utf8(std::mem::replace(&mut self.bytes, rest)).unwrap();
            self.heard.extend(whole.split("\n\n").filter(|event| !event.is_empty()).map(parsed));
        }
        self.heard.pop_front()
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

fn parsed(text: &str) -> Heard {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    Heard {
        kind: field("event").unwrap_or("message").to_owned(),
        cursor: field("id").map(|id| id.parse().unwrap()),
        data: serde_json::from_str(field("data").unwrap_or("null")).unwrap(),
    }
}
