//! A runner's events as they come: parsed within bounded memory, and over when the runner falls silent.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{BoxStream, StreamExt};
use reqwest::Response;

use crate::protocol::Cursor;
use crate::words::words;

/// A runner says something every 20 seconds; one that was silent for this long is not there any more.
const SILENT_MOST: Duration = Duration::from_secs(60);
/// A longer event is only told to have come.
const EVENT_MOST: usize = 20 * 1024 * 1024;

words! {
    /// What an event of a runner tells.
    EventKind {
        /// A line of output.
        Line = "line",
        /// A part of the output that is not kept any more.
        Gap = "gap",
        /// The engine is gone.
        Ended = "ended",
        /// The runner is there.
        Ping = "ping",
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerEvent {
    /// What it tells.
    pub kind: EventKind,
    /// The cursor behind it, where it has one.
    pub cursor: Option<Cursor>,
    /// The details, as JSON in one line.
    pub data: String,
}

/// The events of one engine. It is over when the runner says so, breaks off, or is silent for too long: the events do
/// not tell which, but that an `ended` is the last of them.
///
/// The lock is never waited for: it only lets the stream be part of what several threads see.
pub struct EventStream(Mutex<BoxStream<'static, RunnerEvent>>);

impl EventStream {
    /// Makes one out of the events themselves.
    #[must_use]
    pub fn new(events: BoxStream<'static, RunnerEvent>) -> Self {
        Self(Mutex::new(events))
    }

    /// Makes one out of an answer whose body has not been read.
    pub(super) fn of(response: Response) -> Self {
        let chunks = futures_util::stream::unfold((response, Parser::default()), |(mut response, mut parser)| async {
            let chunk = tokio::time::timeout(SILENT_MOST, response.chunk()).await.ok()?.ok()??;
            let events = parser.take(&chunk);
            Some((futures_util::stream::iter(events), (response, parser)))
        });
        Self::new(chunks.flatten().boxed())
    }

    /// Returns the next event; none when the stream is over.
    pub async fn next(&mut self) -> Option<RunnerEvent> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).next().await
    }
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventStream")
    }
}

/// The bytes of a stream on their way to events.
#[derive(Debug)]
struct Parser {
    line: Vec<u8>,
    /// The line that comes is too long to be kept.
    cut: bool,
    event: Raw,
    most: usize,
}

#[derive(Debug, Default)]
struct Raw {
    kind: Option<EventKind>,
    cursor: Option<Cursor>,
    data: Option<String>,
    oversize: bool,
}

impl Default for Parser {
    fn default() -> Self {
        Self { line: Vec::new(), cut: false, event: Raw::default(), most: EVENT_MOST }
    }
}

impl Parser {
    /// Takes more bytes, and returns the events that they complete.
    fn take(&mut self, bytes: &[u8]) -> Vec<RunnerEvent> {
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let whole = part.strip_suffix(b"\n");
            self.hold(whole.unwrap_or(part));
            if whole.is_some() {
                events.extend(self.end_line());
            }
        }
        events
    }

    fn hold(&mut self, part: &[u8]) {
        self.cut |= self.line.len() + part.len() > self.most;
        if self.cut {
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn end_line(&mut self) -> Option<RunnerEvent> {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.cut) {
            self.event.oversize = true;
            return None;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if line.is_empty() {
            return std::mem::take(&mut self.event).whole();
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?);
        self.event.field(name, value.strip_prefix(b" ").unwrap_or(value));
        None
    }
}

impl Raw {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        let text = || std::str::from_utf8(value).ok();
        match name {
            b"event" => self.kind = text().and_then(|text| text.parse().ok()),
            b"id" => self.cursor = text().and_then(|text| text.parse().ok()),
            // A runner's data is one line of JSON; more than that is no data of this protocol.
            b"data" if self.data.is_none() => self.data = text().map(str::to_owned),
            _ => {}
        }
    }

    /// Returns the event, if it is one that is known; of a line that was too long only where it ended.
    fn whole(self) -> Option<RunnerEvent> {
        let (kind, cursor) = (self.kind?, self.cursor);
        let data = match (kind, cursor) {
            (EventKind::Line, Some(cursor)) if self.oversize => {
                format!("{{\"cursor\":\"{cursor}\",\"oversize\":true}}")
            }
            _ => self.data?,
        };
        Some(RunnerEvent { kind, cursor, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "event: line\nid: 3-4\ndata: {\"cursor\":\"3-4\",\"line\":\"one\"}\n\n: beat\n\nevent:ping\r\ndata:{}\r\n\r\n\
                          event: later\ndata: {}\n\nevent: ended\nid: 3-4\ndata: {\"reason\":\"idle\"}\n\nevent: line\ndata: cut";

    fn at(offset: u64) -> Option<Cursor> {
        Some(Cursor { start: 3, offset })
    }

    fn event(kind: EventKind, cursor: Option<Cursor>, data: &str) -> RunnerEvent {
        RunnerEvent { kind, cursor, data: data.to_owned() }
    }

    #[test]
    fn events_are_the_same_however_their_bytes_come() {
        let expected = [
            event(EventKind::Line, at(4), "{\"cursor\":\"3-4\",\"line\":\"one\"}"),
            event(EventKind::Ping, None, "{}"),
            event(EventKind::Ended, at(4), "{\"reason\":\"idle\"}"),
        ];
        for size in 1..STREAM.len() {
            let mut parser = Parser::default();
            let came: Vec<_> = STREAM.as_bytes().chunks(size).flat_map(|part| parser.take(part)).collect();
            assert_eq!(came, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn an_id_that_is_no_cursor_is_none() {
        for id in ["4", "x", "", "3-4-5"] {
            let stream = format!("event: line\nid: {id}\ndata: {{}}\n\n");
            assert_eq!(Parser::default().take(stream.as_bytes()), [event(EventKind::Line, None, "{}")], "{id}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_costs_no_memory_and_is_told_to_have_come() {
        let stream = format!("event: line\nid: 3-9\ndata: {}\n\nevent: ping\ndata: {{}}\n\n", "x".repeat(1_000));
        for size in [1, 7, 64, 5_000] {
            let mut parser = Parser { most: 100, ..Parser::default() };
            let came: Vec<_> = stream.as_bytes().chunks(size).flat_map(|part| parser.take(part)).collect();
            let long = event(EventKind::Line, at(9), "{\"cursor\":\"3-9\",\"oversize\":true}");
            assert_eq!(came, [long, event(EventKind::Ping, None, "{}")], "in pieces of {size}");
            assert!(parser.line.capacity() <= 200);
        }
    }
}
