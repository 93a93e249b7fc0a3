//! Server-sent events out of the bytes that come, cut wherever they are.

use serde_json::Value;
use sexton::protocol::Cursor;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

/// What has come and was not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    rest: Vec<u8>,
}

impl Got {
    /// Returns its id as a place in a session's output.
    pub(crate) fn cursor(&self) -> Option<Cursor> {
        self.id.as_ref().map(|id| id.parse().unwrap())
    }
}

impl Parser {
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.rest.extend_from_slice(chunk);
    }

    /// Returns the next whole event; comments are none.
    pub(crate) fn take(&mut self) -> Option<Got> {
        loop {
            let end = self.rest.windows(2).position(|two| two == b"\n\n")?;
            let block: Vec<u8> = self.rest.drain(..end + 2).collect();
            if let Some(got) = parsed(std::str::from_utf8(&block).unwrap()) {
                return Some(got);
            }
        }
    }
}

fn parsed(block: &str) -> Option<Got> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let data = serde_json::from_str(field("data")?).unwrap();
    Some(Got { name: field("event").unwrap().to_owned(), id: field("id").map(str::to_owned), data })
}
