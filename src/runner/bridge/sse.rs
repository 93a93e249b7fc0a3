//! Splits a stream of server-sent events into their data, within bounded memory.

/// A longer event is dropped.
const EVENT_MOST: usize = 8 * 1024 * 1024;

/// What came of some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Came {
    /// The data of one event.
    Data(String),
    /// An event that was too long, or no text.
    Unusable,
}

/// The events of one stream, as its bytes come in.
#[derive(Debug)]
pub(crate) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    usable: bool,
    most: usize,
}

impl Default for Events {
    fn default() -> Self {
        Self { line: Vec::new(), data: Vec::new(), usable: true, most: EVENT_MOST }
    }
}

impl Events {
    /// Takes more bytes, and returns what they complete.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Came> {
        let mut came = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.hold(part);
            if part.ends_with(b"\n") {
                came.extend(self.end_line());
            }
        }
        came
    }

    fn hold(&mut self, part: &[u8]) {
        if self.line.len() + self.data.len() + part.len() > self.most {
            self.usable = false;
            // The end of the line still has to be seen, or the next event would be taken for a part of this one.
            (self.line, self.data) = (Vec::new(), Vec::new());
            self.line.extend(part.ends_with(b"\n").then_some(b'\n'));
            self.line.insert(0, b':');
        } else {
            self.line.extend_from_slice(part);
        }
    }

    fn end_line(&mut self) -> Option<Came> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return self.end_event();
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        }
        None
    }

    fn end_event(&mut self) -> Option<Came> {
        let data = std::mem::take(&mut self.data);
        let usable = std::mem::replace(&mut self.usable, true);
        if !usable {
            return Some(Came::Unusable);
        }
        let any = !data.is_empty();
        any.then(|| String::from_utf8(data).map_or(Came::Unusable, Came::Data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str =
        ": hello\r\nid: 1\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n\n\nevent: x\ndata:two\n\n: beat\n\ndata: cut";

    #[test]
    fn events_are_the_same_however_the_bytes_come() {
        let expected = [Came::Data("{\"a\":\n1}".into()), Came::Data("two".into())];
        for size in 1..STREAM.len() {
            let mut events = Events::default();
            let came: Vec<Came> = STREAM.as_bytes().chunks(size).flat_map(|part| events.take(part)).collect();
            assert_eq!(came, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn an_event_that_is_too_long_costs_no_memory_and_hides_no_other() {
        let stream = format!("data: 1\n\ndata: {}\ndata: more\n\ndata: 2\n\n", "x".repeat(1_000));
        for size in [1, 7, 64, 5_000] {
            let mut events = Events { most: 100, ..Events::default() };
            let came: Vec<Came> = stream.as_bytes().chunks(size).flat_map(|part| events.take(part)).collect();
            assert_eq!(came, [Came::Data("1".into()), Came::Unusable, Came::Data("2".into())], "in pieces of {size}");
            assert!(events.data.capacity() <= 200);
        }
    }
}
