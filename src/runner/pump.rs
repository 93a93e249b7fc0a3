//! The engine's three pipes: its input is written by one task, its output read line by line within bounded memory.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;
use crate::runner::engine::Engine;
use crate::runner::engines::Event;

/// A longer line is dropped but for the fact that it came.
const LINE_MOST: usize = 16 * 1024 * 1024;
/// How many of the last lines of standard error are kept.
const LAST_LINES: usize = 20;
/// How many bytes of each.
const LAST_LINE_MOST: usize = 4_096;

/// Bytes for the engine, and where to say that it took them.
pub(crate) struct Outgoing {
    /// What to write.
    pub(crate) bytes: Vec<u8>,
    /// Told once they are written.
    pub(crate) taken: oneshot::Sender<io::Result<()>>,
}

/// Writes to the engine until its session is being ended, then closes its input.
pub(crate) async fn write(session: Arc<Engine>, mut stdin: ChildStdin, mut outgoing: mpsc::Receiver<Outgoing>) {
    let closing = session.closing.clone();
    let all = async {
        while let Some(Outgoing { bytes, taken }) = outgoing.recv().await {
            let written = match stdin.write_all(&bytes).await {
                Ok(()) => stdin.flush().await,
                Err(error) => Err(error),
            };
            // Who asked may have gone.
            let _ = taken.send(written);
        }
    };
    tokio::select! {
        () = closing.cancelled() => {}
        () = all => {}
    }
}

/// Reads the engine's output into its doings until it ends.
///
/// A part of an unfinished line is output like any other, so an engine that ends its lines late, or never, is not
/// taken for a silent one.
pub(crate) async fn read(session: Arc<Engine>, stdout: ChildStdout, clock: Arc<dyn Clock>) {
    let mut lines = Lines::new(stdout, LINE_MOST);
    let part = || session.heard(Event::Output { task: None }, clock.awake());
    while let Ok(Some(line)) = lines.next(part).await {
        match line {
            Some(line) => session.said(line, clock.awake()),
            None => part(),
        }
    }
    session.fell_mute();
}

/// Keeps the last lines of the engine's standard error, all of which is output that says nothing more.
pub(crate) async fn read_errors(session: Arc<Engine>, stderr: ChildStderr, clock: Arc<dyn Clock>) {
    let mut lines = Lines::new(stderr, LAST_LINE_MOST);
    let part = || session.heard(Event::Output { task: None }, clock.awake());
    while let Ok(Some(line)) = lines.next(part).await {
        part();
        session.complained(line.map_or_else(|| "(a long line)".into(), String::from_utf8_lossy).trim_end());
    }
}

/// The last lines of something.
#[derive(Debug, Default)]
pub(crate) struct Tail(VecDeque<String>);

impl Tail {
    /// Adds one.
    pub(crate) fn push(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        if self.0.len() == LAST_LINES {
            self.0.pop_front();
        }
        self.0.push_back(line.to_owned());
    }

    /// Returns them as one text; empty when there are none.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Splits a stream into lines, none of which takes more than `most` bytes of memory.
struct Lines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    most: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(from: R, most: usize) -> Self {
        Self { from: BufReader::with_capacity(16 * 1024, from), line: Vec::new(), most }
    }

    /// Returns the next line, without its end; an inner none stands for one that was too long; none at the end.
    ///
    /// Calls `part_came` for each piece of it that came without its end.
    async fn next(&mut self, part_came: impl Fn()) -> io::Result<Option<Option<&[u8]>>> {
        self.line = Vec::new();
        let (mut any, mut whole, mut ended) = (false, true, false);
        while !ended {
            let chunk = self.from.fill_buf().await?;
            if chunk.is_empty() {
                break;
            }
            any = true;
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            whole = whole && self.line.len() + part.len() <= self.most;
            if whole {
                self.line.extend_from_slice(part);
            } else {
                self.line = Vec::new();
            }
            let used = part.len() + usize::from(end.is_some());
            ended = end.is_some();
            self.from.consume(used);
            if !ended {
                part_came();
            }
        }
        Ok(any.then_some(whole.then_some(self.line.as_slice())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_costs_no_memory_and_hides_no_other() {
        let text = format!("first\n{}\n\nlast", "x".repeat(100_000));
        let mut lines = Lines::new(text.as_bytes(), 50_000);
        assert_eq!(lines.next(|| ()).await.unwrap(), Some(Some(b"first".as_slice())));
        assert_eq!(lines.next(|| ()).await.unwrap(), Some(None));
        assert_eq!(lines.line.capacity(), 0);
        assert_eq!(lines.next(|| ()).await.unwrap(), Some(Some(b"".as_slice())));
        assert_eq!(lines.next(|| ()).await.unwrap(), Some(Some(b"last".as_slice())));
        assert_eq!(lines.next(|| ()).await.unwrap(), None);
    }

    #[tokio::test]
    async fn each_part_of_an_unfinished_line_is_told_as_it_comes() {
        let parts = std::cell::Cell::new(0);
        let text = format!("whole\n{}", "x".repeat(40_000));
        let mut lines = Lines::new(text.as_bytes(), 10);
        let count = || parts.set(parts.get() + 1);
        assert_eq!(lines.next(count).await.unwrap(), Some(Some(b"whole".as_slice())));
        assert_eq!(parts.get(), 0);
        assert_eq!(lines.next(count).await.unwrap(), Some(None));
        assert_eq!(parts.get(), 3, "one for each buffer's worth");
    }

    #[test]
    fn a_tail_keeps_the_last_lines() {
        let mut tail = Tail::default();
        for number in 0..30 {
            tail.push(&number.to_string());
        }
        assert!(tail.text().starts_with("10\n") && tail.text().ends_with("\n29"));
    }
}
