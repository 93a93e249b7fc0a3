//! When somebody who follows a session counts as using it.

use crate::session::ActivityKind;
use crate::time::{MINUTE, Ms};

/// How often it is a use that somebody looks.
const EVERY: Ms = MINUTE;

/// Somebody who looks at a session: a use of it at the beginning, and again with what is taken a minute and more later. So
/// whoever takes nothing any more uses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looking {
    /// When it last counted, on the clock's time that runs on in sleep.
    counted_at: Ms,
}

impl Looking {
    /// What kind of use it is.
    pub const KIND: ActivityKind = ActivityKind::Capture;

    /// Begins at the time of the first use, which the caller records.
    #[must_use]
    pub fn begin(now: Ms) -> Self {
        Self { counted_at: now }
    }

    /// Returns whether an event that is taken now is to be recorded as a use, and counts from here on if so.
    pub fn is_due(&mut self, now: Ms) -> bool {
        let due = now - self.counted_at >= EVERY;
        if due {
            self.counted_at = now;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_use_once_a_minute() {
        let mut looking = Looking::begin(5);
        let due = [5, 4 + MINUTE, 5 + MINUTE, 6 + MINUTE, 4 + 2 * MINUTE, 9 * MINUTE].map(|now| looking.is_due(now));
        assert_eq!(due, [false, false, true, false, false, true]);
    }
}
