//! A client as a browser is one: it keeps the id of the last event and nothing else.

use std::time::Duration;

use crate::attach::station::Station;
use crate::support::sse::{Got, Parser};

/// An open stream; dropping it drops the connection.
pub(crate) struct Listening {
    response: reqwest::Response,
    parser: Parser,
}

impl Station {
    /// Follows a session once there is a worker that answers; `last` is the id of the last event, in the header or the
    /// query.
    pub(crate) async fn follow(&self, path: &str, last: Option<&str>, in_header: bool) -> Listening {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        for _ in 0..1_200 {
            let cursor = last.filter(|_| !in_header).map(|last| {
                let sign = if path.contains('?') { '&' } else { '?' };
                format!("{sign}cursor={last}")
            });
            let url = format!("{}{path}{}", self.base, cursor.unwrap_or_default());
            let mut request = client.get(url).bearer_auth(&self.token);
            if let Some(last) = last.filter(|_| in_header) {
                request = request.header("Last-Event-ID", last);
            }
            match request.send().await {
                Ok(response) if response.status() == 200 => return Listening { response, parser: Parser::default() },
                Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(25)).await,
            }
        }
        panic!("{path} was never answered");
    }
}

impl Listening {
    /// Returns the next event but pings; none when the connection is over.
    pub(crate) async fn next(&mut self) -> Option<Got> {
        loop {
            let got = tokio::time::timeout(Duration::from_secs(60), self.read()).await;
            match got.expect("something comes, or the stream is over") {
                Some(got) if got.name == "ping" => {}
                got => return got,
            }
        }
    }

    async fn read(&mut self) -> Option<Got> {
        loop {
            if let Some(got) = self.parser.take() {
                return Some(got);
            }
            let chunk = self.response.chunk().await.ok()??;
            self.parser.push(&chunk);
        }
    }
}
