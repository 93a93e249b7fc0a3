//! What was accepted before, so that nothing is written twice however often it is ordered.

use std::collections::VecDeque;

use crate::runner::shim::wire::Once;
use crate::session::Id;

/// How many messages are remembered.
const MESSAGES: usize = 256;

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct Accepted {
    reply: Option<(u64, u32)>,
    messages: VecDeque<Id>,
}

/// Whether something was accepted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was.
    Before,
    /// Not as far as is remembered.
    New,
}

impl Accepted {
    /// Returns whether `once` was accepted before.
    #[must_use]
    pub(crate) fn knows(&self, once: &Once) -> Known {
        let before = match once {
            Once::Reply { at, n } => self.reply.is_some_and(|highest| (*at, *n) <= highest),
            Once::Message { id } => self.messages.contains(id),
        };
        if before { Known::Before } else { Known::New }
    }

    /// Remembers `once`, which is new.
    pub(crate) fn accept(&mut self, once: &Once) {
        match once {
            Once::Reply { at, n } => self.reply = Some((*at, *n)),
            Once::Message { id } => {
                if self.messages.len() == MESSAGES {
                    self.messages.pop_front();
                }
                self.messages.push_back(id.clone());
            }
        }
    }

    /// Takes back the last acceptance but those that were taken back; `before` was the highest reply until then.
    pub(crate) fn forget(&mut self, once: &Once, before: Option<(u64, u32)>) {
        match once {
            Once::Reply { .. } => self.reply = before,
            Once::Message { id } => self.messages.retain(|kept| kept != id),
        }
    }

    /// Returns the highest accepted reply.
    #[must_use]
    pub(crate) fn highest(&self) -> Option<(u64, u32)> {
        self.reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_counts_above_the_highest_and_a_message_by_its_id() {
        let mut accepted = Accepted::default();
        let reply = |at, n| Once::Reply { at, n };
        accepted.accept(&reply(10, 1));
        assert_eq!([(9, 9), (10, 1), (10, 2), (11, 0)].map(|(at, n)| accepted.knows(&reply(at, n))), {
            [Known::Before, Known::Before, Known::New, Known::New]
        });
        let ids: Vec<Once> = (0..300).map(|n| Once::Message { id: format!("m-{n}").parse().unwrap() }).collect();
        for id in &ids {
            accepted.accept(id);
        }
        assert_eq!((accepted.knows(&ids[299]), accepted.knows(&ids[43])), (Known::Before, Known::New));
    }
}
