//! What waits for the engine to read it, and who asked for it.
//!
//! Bounded, and never blocks. A text goes into the pipe whole and after the one before it, or is not begun.

use std::collections::VecDeque;
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};

use crate::runner::shim::once::{Accepted, Known};
use crate::runner::shim::wire::{INPUT_MOST, Once, Taken};
use crate::time::Ms;

/// The engine's stdin, seen from the other end.
#[derive(Debug)]
pub(crate) struct Input {
    pipe: Option<PipeWriter>,
    queue: VecDeque<Text>,
    /// How much of the first text is in the pipe.
    written: usize,
    waiting: usize,
    accepted: Accepted,
    /// Once a stop has begun, nothing new is taken.
    closed: bool,
    taken_at: Option<Ms>,
}

#[derive(Debug)]
struct Text {
    bytes: Vec<u8>,
    once: Option<Once>,
    /// The highest reply before this one.
    before: Option<(u64, u32)>,
    /// Whom to tell.
    asked: Vec<(u64, Taken)>,
}

/// Which order came to what.
pub(crate) type Answers = Vec<(u64, Taken)>;

impl Input {
    /// Makes the queue before `pipe`, which never blocks.
    #[must_use]
    pub(crate) fn new(pipe: PipeWriter) -> Self {
        Self {
            pipe: Some(pipe),
            queue: VecDeque::new(),
            written: 0,
            waiting: 0,
            accepted: Accepted::default(),
            closed: false,
            taken_at: None,
        }
    }

    /// Returns whether a text of this mark was accepted before.
    #[must_use]
    pub(crate) fn knows(&self, once: Option<&Once>) -> bool {
        once.is_some_and(|once| matches!(self.accepted.knows(once), Known::Before))
    }

    /// Takes a text. The answer is none while it waits, else final; `Again` and none mean that it was accepted.
    pub(crate) fn offer(&mut self, seq: u64, text: String, once: Option<Once>) -> Option<Taken> {
        if self.knows(once.as_ref()) {
            return self.again(seq, once.as_ref());
        }
        if self.closed {
            return Some(Taken::Closed);
        }
        if self.pipe.is_none() {
            return Some(Taken::Broken);
        }
        if self.waiting.saturating_add(text.len()) > INPUT_MOST {
            return Some(Taken::Full);
        }
        let before = self.accepted.highest();
        if let Some(once) = &once {
            self.accepted.accept(once);
        }
        self.push(text, once, before, vec![(seq, Taken::Written)]);
        None
    }

    /// It is told as soon as the text that was accepted before is in the pipe, which may have been long ago.
    fn again(&mut self, seq: u64, once: Option<&Once>) -> Option<Taken> {
        match self.queue.iter_mut().find(|text| text.once.as_ref() == once) {
            Some(waiting) => {
                waiting.asked.push((seq, Taken::Again));
                None
            }
            None => Some(Taken::Again),
        }
    }

    fn push(&mut self, text: String, once: Option<Once>, before: Option<(u64, u32)>, asked: Answers) {
        self.waiting += text.len();
        self.queue.push_back(Text { bytes: text.into_bytes(), once, before, asked });
    }

    /// Takes nothing new, drops what is not begun yet, and lets `last` be the last text.
    pub(crate) fn stop(&mut self, last: String) -> Answers {
        if std::mem::replace(&mut self.closed, true) {
            return Vec::new();
        }
        let begun = usize::from(self.written > 0);
        let answers = self.drop_from(begun, Taken::Closed);
        if self.pipe.is_some() && !last.is_empty() {
            self.push(last, None, None, Vec::new());
        }
        answers
    }

    /// Closes the pipe; what is not in it is dropped.
    pub(crate) fn close(&mut self) -> Answers {
        self.closed = true;
        self.pipe = None;
        self.drop_from(0, Taken::Closed)
    }

    /// Writes what the pipe takes.
    pub(crate) fn write(&mut self, now: Ms) -> Answers {
        let mut answers = Vec::new();
        while let (Some(pipe), Some(text)) = (&mut self.pipe, self.queue.front_mut()) {
            let rest = text.bytes.get(self.written..).unwrap_or_default();
            let done = match if rest.is_empty() { Ok(0) } else { pipe.write(rest) } {
                Ok(some) => {
                    self.written += some;
                    self.taken_at = Some(now);
                    self.written >= text.bytes.len()
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.pipe = None;
                    answers.extend(self.drop_from(0, Taken::Broken));
                    break;
                }
            };
            if done && let Some(text) = self.queue.pop_front() {
                self.written = 0;
                self.waiting -= text.bytes.len();
                answers.extend(text.asked);
            }
        }
        answers
    }

    /// Drops all texts but the first `keep`, as if they had never been accepted.
    fn drop_from(&mut self, keep: usize, result: Taken) -> Answers {
        let dropped = self.queue.split_off(keep.min(self.queue.len()));
        if keep == 0 {
            self.written = 0;
        }
        for text in dropped.iter().rev() {
            self.waiting -= text.bytes.len();
            if let Some(once) = &text.once {
                self.accepted.forget(once, text.before);
            }
        }
        dropped.into_iter().flat_map(|text| text.asked).map(|(seq, _)| (seq, result)).collect()
    }

    /// Forgets who asked: the numbers of their orders are another connection's now.
    pub(crate) fn forget_askers(&mut self) {
        for text in &mut self.queue {
            text.asked.clear();
        }
    }

    /// Returns what to wait for while something is queued.
    #[must_use]
    pub(crate) fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| !self.queue.is_empty()).map(AsFd::as_fd)
    }

    /// Returns how many texts are not in the pipe yet.
    #[must_use]
    pub(crate) fn messages(&self) -> usize {
        self.queue.len()
    }

    /// Returns when the engine took something last.
    #[must_use]
    pub(crate) fn taken_at(&self) -> Option<Ms> {
        self.taken_at
    }

    /// Returns the highest accepted reply.
    #[must_use]
    pub(crate) fn answered(&self) -> Option<(u64, u32)> {
        self.accepted.highest()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn input() -> (Input, io::PipeReader) {
        let (engine, pipe) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&pipe, true).unwrap();
        (Input::new(pipe), engine)
    }

    fn message(id: &str) -> Option<Once> {
        Some(Once::Message { id: id.parse().unwrap() })
    }

    #[test]
    fn a_text_is_told_once_it_is_in_the_pipe() {
        let (mut input, mut engine) = input();
        assert_eq!(input.offer(1, "hello\n".into(), message("a")), None);
        assert_eq!(input.write(7), [(1, Taken::Written)]);
        assert_eq!(input.offer(2, "hello\n".into(), message("a")), Some(Taken::Again));
        assert_eq!((input.messages(), input.taken_at()), (0, Some(7)));
        let mut read = [0; 64];
        assert_eq!(engine.read(&mut read).unwrap(), 6);
    }

    #[test]
    fn what_is_asked_for_again_while_it_waits_is_told_when_it_is_written() {
        let (mut input, _engine) = input();
        assert_eq!(input.offer(1, "x".repeat(100_000), message("a")), None);
        assert_eq!((input.write(0), input.offer(2, String::new(), message("a"))), (Vec::new(), None));
        input.forget_askers();
        assert_eq!(input.offer(1, String::new(), message("a")), None);
        assert_eq!(input.close(), [(1, Taken::Closed)]);
    }

    #[test]
    fn what_never_reached_the_engine_was_never_accepted() {
        let (mut input, engine) = input();
        drop(engine);
        let reply = |at| Some(Once::Reply { at, n: 0 });
        assert_eq!(input.offer(1, "x".into(), reply(5)), None);
        assert_eq!(input.offer(2, "y".into(), reply(9)), None);
        assert_eq!(input.write(0), [(1, Taken::Broken), (2, Taken::Broken)]);
        assert_eq!((input.offer(3, "y".into(), reply(9)), input.answered()), (Some(Taken::Broken), None));
    }

    #[test]
    fn the_queue_is_bounded() {
        let (mut input, _engine) = input();
        assert_eq!(input.offer(1, "x".repeat(INPUT_MOST), None), None);
        assert_eq!(input.offer(2, "y".into(), message("y")), Some(Taken::Full));
        assert_eq!(input.offer(3, String::new(), message("y")), None, "what was refused was not accepted");
    }

    #[test]
    fn a_stop_finishes_what_was_begun_and_lets_nothing_else_through() {
        let (mut input, mut engine) = input();
        input.offer(1, "x".repeat(100_000), None);
        input.offer(2, "never".into(), message("late"));
        assert_eq!(input.write(0), []);
        assert_eq!(input.stop("bye".into()), [(2, Taken::Closed)]);
        assert_eq!(input.offer(3, "more".into(), message("late")), Some(Taken::Closed));
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            engine.read_to_string(&mut text).map(|_| text)
        });
        let mut answers = Vec::new();
        while input.messages() > 0 {
            answers.extend(input.write(0));
        }
        assert_eq!((answers, input.close()), (vec![(1, Taken::Written)], Vec::new()));
        let text = reading.join().unwrap().unwrap();
        assert!(text.len() == 100_003 && text.ends_with("xbye"));
    }
}
