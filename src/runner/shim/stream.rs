//! One of the engine's outputs: from its pipe into what keeps it, without losing or doubling a byte.
//!
//! What cannot be written is held, and the pipe is not read until it could be: then the engine waits, as it would for
//! any slow reader.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::buffer::spare_capacity;

use crate::time::{Ms, SECOND};

/// How long after a write that failed it is tried again.
const WRITE_AGAIN: Ms = SECOND;

/// What keeps a stream of bytes.
pub(crate) trait Sink {
    /// Keeps the first of `bytes`, and returns how many.
    ///
    /// # Errors
    /// When it can keep none now.
    fn put(&mut self, bytes: &[u8], now: Ms) -> io::Result<usize>;
}

/// A pipe and where it goes.
#[derive(Debug)]
pub(crate) struct Stream<S> {
    pipe: Option<PipeReader>,
    sink: S,
    held: Vec<u8>,
    again: Ms,
    came: Option<Ms>,
    trouble: Option<String>,
    /// Once nobody is left to write: how many bytes are still to come.
    left: Option<u64>,
}

impl<S: Sink> Stream<S> {
    /// Makes the stream from `pipe`, which never blocks.
    #[must_use]
    pub(crate) fn new(pipe: PipeReader, sink: S) -> Self {
        Self { pipe: Some(pipe), sink, held: Vec::new(), again: 0, came: None, trouble: None, left: None }
    }

    /// Returns what keeps it.
    pub(crate) fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns when something came last.
    #[must_use]
    pub(crate) fn came(&self) -> Option<Ms> {
        self.came
    }

    /// Returns why it cannot be kept, while it cannot.
    #[must_use]
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Returns what to wait for; none when there is nothing to be read, or no place for it.
    #[must_use]
    pub(crate) fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| self.held.is_empty()).map(AsFd::as_fd)
    }

    /// Returns in how many milliseconds what is held is tried again.
    #[must_use]
    pub(crate) fn due_in(&self, now: Ms) -> Option<Ms> {
        (!self.held.is_empty()).then(|| self.again.saturating_sub(now).max(0))
    }

    /// Returns whether everything that will ever come is kept.
    #[must_use]
    pub(crate) fn has_ended(&self) -> bool {
        self.pipe.is_none() && self.held.is_empty()
    }

    /// Reads once, by way of `scratch`; returns whether something was kept, or the end was reached.
    pub(crate) fn read(&mut self, scratch: &mut Vec<u8>, now: Ms) -> bool {
        let Some(pipe) = self.pipe.as_ref().filter(|_| self.held.is_empty()) else { return false };
        scratch.clear();
        let read = match rustix::io::read(pipe, spare_capacity(scratch)) {
            Ok(0) => {
                self.pipe = None;
                return true;
            }
            Ok(read) => read,
            // Nothing there, or nothing yet.
            Err(_) => return false,
        };
        self.came = Some(now);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(read as u64);
        }
        let kept = self.keep(scratch, now);
        self.held = scratch.get(kept..).unwrap_or_default().to_vec();
        kept > 0
    }

    /// Tries again to keep what is held, if it is time; returns whether some of it was kept.
    pub(crate) fn retry(&mut self, now: Ms) -> bool {
        if self.due_in(now) != Some(0) {
            return false;
        }
        let held = std::mem::take(&mut self.held);
        let kept = self.keep(&held, now);
        self.held = held.get(kept..).unwrap_or_default().to_vec();
        kept > 0
    }

    /// Takes note that nobody who belongs to the engine is left: what is in the pipe by now is all that will come.
    pub(crate) fn last_call(&mut self) {
        let there = self.pipe.as_ref().map_or(Ok(0), rustix::io::ioctl_fionread);
        self.left = Some(there.unwrap_or(0));
    }

    /// Returns whether all that came is kept.
    #[must_use]
    pub(crate) fn is_done(&self) -> bool {
        self.held.is_empty() && (self.pipe.is_none() || self.left == Some(0))
    }

    fn keep(&mut self, bytes: &[u8], now: Ms) -> usize {
        let mut kept = 0;
        while let Some(rest) = bytes.get(kept..).filter(|rest| !rest.is_empty()) {
            match self.sink.put(rest, now) {
                Ok(0) => return self.fail(&io::ErrorKind::WriteZero.into(), kept, now),
                Ok(some) => kept += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.fail(&error, kept, now),
            }
        }
        self.trouble = None;
        kept
    }

    fn fail(&mut self, error: &io::Error, kept: usize, now: Ms) -> usize {
        self.again = now.saturating_add(WRITE_AGAIN);
        self.trouble = Some(error.to_string());
        kept
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Keeps three bytes at a time while it has room.
    struct Narrow(Vec<u8>, usize);

    impl Sink for Narrow {
        fn put(&mut self, bytes: &[u8], _: Ms) -> io::Result<usize> {
            let room = (self.1 - self.0.len()).min(3).min(bytes.len());
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.extend_from_slice(&bytes[..room]);
            Ok(room)
        }
    }

    #[test]
    fn what_has_no_place_is_held_and_kept_later_exactly_once() {
        let (pipe, mut engine) = io::pipe().unwrap();
        let mut stream = Stream::new(pipe, Narrow(Vec::new(), 8));
        engine.write_all(b"0123456789").unwrap();
        assert!(stream.read(&mut Vec::with_capacity(64), 1_000));
        assert!(stream.waits_for().is_none() && stream.trouble().is_some() && !stream.is_done());
        assert_eq!(stream.due_in(1_400), Some(600));
        assert!(!stream.retry(1_999), "not before its time");
        stream.sink().1 = 100;
        assert!(stream.retry(2_000));
        assert_eq!(stream.sink().0, b"0123456789");
        assert_eq!(stream.trouble(), None);
        assert_eq!(stream.came(), Some(1_000), "a retry is nothing that came");
    }

    #[test]
    fn at_the_last_call_what_is_in_the_pipe_counts_and_no_more() {
        let (pipe, mut engine) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&pipe, true).unwrap();
        let mut stream = Stream::new(pipe, Narrow(Vec::new(), 100));
        engine.write_all(b"0123").unwrap();
        stream.last_call();
        assert!(!stream.is_done());
        stream.read(&mut Vec::with_capacity(64), 0);
        assert!(stream.is_done(), "though somebody still holds the other end");
    }
}
