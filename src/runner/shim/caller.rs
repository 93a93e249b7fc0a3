//! One runner's connection: orders come in, news go out, and neither ever makes the shim wait or grow.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::runner::shim::wire::{News, Order};

/// More than this is not kept for a runner that does not read: it comes again, and is told how things are.
const UNREAD_MOST: usize = 1024 * 1024;
/// A longer order is none: it holds the largest text that may wait for the engine, escaped.
const ORDER_MOST: usize = 100 * 1024 * 1024;
/// A buffer above this is given back once it is empty.
const KEPT_MOST: usize = 16 * 1024;

/// A connection.
#[derive(Debug)]
pub(crate) struct Caller {
    stream: UnixStream,
    said: Vec<u8>,
    /// How much of `said` is known to hold no line's end.
    searched: usize,
    unread: Vec<u8>,
    /// How much may wait to be read: the first words are as long as they are.
    unread_most: usize,
    /// Whether it is of no more use.
    lost: bool,
    ended: bool,
}

impl Caller {
    /// Takes a connection.
    ///
    /// # Errors
    /// When it cannot be made to never block.
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (said, unread) = (Vec::new(), Vec::new());
        Ok(Self { stream, said, searched: 0, unread, unread_most: UNREAD_MOST, lost: false, ended: false })
    }

    /// Reads once; returns whether there may be more.
    pub(crate) fn read(&mut self, scratch: &mut Vec<u8>) -> bool {
        scratch.clear();
        match rustix::io::read(&self.stream, spare_capacity(scratch)) {
            Ok(0) => self.ended = true,
            Ok(_) => {
                self.said.extend_from_slice(scratch);
                self.lost |= self.said.len() > ORDER_MOST;
                return !self.lost;
            }
            Err(Errno::AGAIN) => {}
            Err(Errno::INTR) => return true,
            Err(_) => self.ended = true,
        }
        false
    }

    /// Returns the next order. What this version does not know is none, and passed over.
    pub(crate) fn order(&mut self) -> Option<Order> {
        loop {
            let fresh = self.said.get(self.searched..).unwrap_or_default();
            let Some(end) = fresh.iter().position(|byte| *byte == b'\n').map(|at| at + self.searched) else {
                self.searched = self.said.len();
                if self.said.is_empty() && self.said.capacity() > KEPT_MOST {
                    self.said = Vec::new();
                }
                return None;
            };
            let order = serde_json::from_slice(self.said.get(..end).unwrap_or_default());
            self.said.drain(..=end);
            self.searched = 0;
            if let Ok(order) = order {
                return Some(order);
            }
        }
    }

    /// Tells something, as soon as it is read.
    pub(crate) fn tell(&mut self, news: &News) {
        let first = self.unread.is_empty();
        if serde_json::to_writer(&mut self.unread, news).is_ok() {
            self.unread.push(b'\n');
        }
        if matches!(news, News::Hello(_)) {
            self.unread_most = self.unread.len() + UNREAD_MOST;
        }
        if first {
            self.flush();
        }
        self.lost |= self.unread.len() > self.unread_most;
    }

    /// Sends what the connection takes.
    pub(crate) fn flush(&mut self) {
        let mut sent = 0;
        while let Some(rest) = self.unread.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(some) => sent += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.lost |= error.kind() != io::ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        self.unread.drain(..sent);
        if self.unread.is_empty() && self.unread.capacity() > KEPT_MOST {
            self.unread = Vec::new();
        }
    }

    /// Returns whether all that was told was taken.
    #[must_use]
    pub(crate) fn heard_all(&self) -> bool {
        self.unread.is_empty()
    }

    /// Returns whether it is over.
    #[must_use]
    pub(crate) fn is_lost(&self) -> bool {
        self.lost || self.ended
    }
}

impl AsFd for Caller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
