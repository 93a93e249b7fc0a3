//! Waiting for children: one thread that takes in whatever ends below the shim, and tells it through a pipe.
//!
//! The thread allocates nothing and decides nothing. It must be there before the engine is, and begins when told.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus};

use crate::protocol::EngineExit;

/// How long a wait for a child that failed is left alone.
const WAIT_AGAIN: Duration = Duration::from_millis(10);
/// What the thread needs: a few calls deep.
const STACK: usize = 64 * 1024;
/// Three numbers: process, exit code, signal.
const RECORD: usize = 12;
/// Stands for a number that there is not.
const NONE: i32 = -1;

/// What the kernel said about children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A child of the shim ended: the engine, or something that it had started.
    Exited(i32, EngineExit),
    /// There is no child left.
    Empty,
}

/// The thread, seen from outside.
#[derive(Debug)]
pub(crate) struct Waiter {
    events: PipeReader,
    go: PipeWriter,
}

impl Waiter {
    /// Makes the thread, which waits for [`Waiter::go`] first: without a child there is nothing to wait for.
    ///
    /// # Errors
    /// When the machine has no thread or pipe to spare.
    pub(crate) fn new() -> io::Result<Self> {
        let (events, told) = io::pipe()?;
        let (begin, go) = io::pipe()?;
        rustix::io::ioctl_fionbio(&events, true)?;
        std::thread::Builder::new().stack_size(STACK).spawn(move || wait_for_children(begin, told))?;
        Ok(Self { events, go })
    }

    /// Lets the thread begin: from now on it takes in every child.
    pub(crate) fn go(&mut self) {
        // The other end is the thread's own, and it is waiting.
        let _ = self.go.write_all(&[1]);
    }

    /// Returns what happened; empty when nothing did.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        // Whole records only, since both sides move whole records.
        let mut bytes = [0; RECORD * 64];
        let read = self.events.read(&mut bytes).unwrap_or(0);
        bytes.get(..read).unwrap_or_default().chunks_exact(RECORD).map(decoded).collect()
    }
}

impl AsFd for Waiter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// Takes in every child that ends, until the kernel says that there is none left.
fn wait_for_children(mut begin: PipeReader, mut told: PipeWriter) {
    if begin.read_exact(&mut [0]).is_err() {
        return;
    }
    loop {
        match waited(rustix::process::wait(WaitOptions::empty())) {
            Some(record) => {
                let _ = told.write_all(&record);
                if record == EMPTY {
                    break;
                }
            }
            // A wait that fails at once must not spin.
            None => std::thread::sleep(WAIT_AGAIN),
        }
    }
}

/// No process has the number 0.
const EMPTY: [u8; RECORD] = [0; RECORD];

/// Returns what a wait for any child says. Only "there is no child" proves that nothing is left; another failure is
/// nothing at all, and is waited for again.
fn waited(answer: rustix::io::Result<Option<(Pid, WaitStatus)>>) -> Option<[u8; RECORD]> {
    match answer {
        Ok(Some((pid, status))) => Some(encoded(pid, status)),
        Err(Errno::CHILD) => Some(EMPTY),
        Ok(None) | Err(_) => None,
    }
}

fn encoded(pid: Pid, status: WaitStatus) -> [u8; RECORD] {
    let numbers =
        [pid.as_raw_nonzero().get(), status.exit_status().unwrap_or(NONE), status.terminating_signal().unwrap_or(NONE)];
    let mut record = EMPTY;
    for (place, number) in record.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    record
}

fn decoded(record: &[u8]) -> Event {
    let mut numbers = record.chunks_exact(4).map(|four| four.try_into().map_or(0, i32::from_le_bytes));
    let mut next = || numbers.next().unwrap_or(0);
    let (pid, code, signal) = (next(), next(), next());
    let there = |number: i32| (number != NONE).then_some(i64::from(number));
    match pid {
        0 => Event::Empty,
        pid => Event::Exited(pid, EngineExit { code: there(code), signal: there(signal) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_word_that_no_child_is_left_proves_it() {
        assert_eq!(waited(Err(Errno::CHILD)).map(|record| decoded(&record)), Some(Event::Empty));
        for doubt in [Errno::INTR, Errno::INVAL, Errno::NOSYS, Errno::NOMEM] {
            assert!(waited(Err(doubt)).is_none(), "{doubt}");
        }
        assert!(waited(Ok(None)).is_none());
    }

    #[test]
    fn an_exit_comes_through_as_it_was() {
        let mut child = std::process::Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let status = rustix::process::waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap().1;
        let exit = EngineExit { code: Some(7), signal: None };
        assert_eq!(decoded(&encoded(pid, status)), Event::Exited(pid.as_raw_nonzero().get(), exit));
        // It was waited for behind the handle's back.
        let _ = child.try_wait();
    }
}
