//! Which touches are written now, and which are held back until their minute ends. Pure bookkeeping, no I/O.
//!
//! Windows run on [`crate::clock::Clock::elapsed`]: whoever sets the wall clock neither holds a touch back nor lets one
//! through. The wall clock's time is what is stored, and nothing else.

use std::collections::{BTreeSet, HashMap};

use crate::session::{ActivityKind, Id};
use crate::time::{Ms, UtcMs};

/// A time at which something used a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use {
    /// When, on the wall clock: what is stored.
    pub(crate) at: UtcMs,
    /// When, on the clock that windows run on.
    pub(crate) elapsed: Ms,
    /// How long after a write the session's next touches are held back.
    pub(crate) window: Ms,
    pub(crate) kind: ActivityKind,
    /// The latest use that is certainly no run's, which a later use of another kind must not hide.
    pub(crate) shared: Option<(UtcMs, ActivityKind)>,
}

/// What becomes of a touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It goes into the next write.
    Queued,
    /// It is kept in memory and written when the session's window ends, or on a clean stop.
    Held,
}

/// The throttle over all sessions of one process.
///
/// A session that was written within the window holds its next touches back; the latest of them is written when the
/// window ends, so after a window of silence the stored time is exact. The window starts only when a write succeeded.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// When the window of each session that was written lately ends.
    written: HashMap<Id, Ms>,
    held: HashMap<Id, Use>,
    queued: HashMap<Id, Use>,
    /// When each entry of `written` ends its window, earliest first.
    ends: BTreeSet<(Ms, Id)>,
}

impl Throttle {
    /// Takes a touch.
    pub(crate) fn offer(&mut self, id: &Id, used: Use) -> Offer {
        let throttled = self.written.get(id).is_some_and(|end| used.elapsed < *end);
        if throttled && !self.queued.contains_key(id) {
            later(&mut self.held, id, used);
            return Offer::Held;
        }
        later(&mut self.queued, id, used);
        Offer::Queued
    }

    /// Takes out what is to be written at `elapsed`: everything queued, and what was held back and whose window has ended.
    pub(crate) fn take(&mut self, elapsed: Ms) -> Vec<(Id, Use)> {
        while let Some((end, id)) = self.ends.first().cloned().filter(|(end, _)| *end <= elapsed) {
            self.ends.remove(&(end, id.clone()));
            self.written.remove(&id);
            if let Some(used) = self.held.remove(&id) {
                later(&mut self.queued, &id, used);
            }
        }
        self.queued.drain().collect()
    }

    /// Takes out everything, held back or not, for a clean stop.
    pub(crate) fn take_all(&mut self) -> Vec<(Id, Use)> {
        for (id, used) in std::mem::take(&mut self.held) {
            later(&mut self.queued, &id, used);
        }
        self.queued.drain().collect()
    }

    /// Arms the windows of what was written.
    pub(crate) fn written(&mut self, batch: &[(Id, Use)]) {
        for (id, used) in batch {
            let end = used.elapsed + used.window;
            if let Some(before) = self.written.insert(id.clone(), end) {
                self.ends.remove(&(before, id.clone()));
            }
            self.ends.insert((end, id.clone()));
        }
    }

    /// Puts back what could not be written.
    pub(crate) fn failed(&mut self, batch: Vec<(Id, Use)>) {
        for (id, used) in batch {
            later(&mut self.queued, &id, used);
        }
    }

    /// Returns how many sessions are remembered.
    #[cfg(test)]
    fn remembered(&self) -> usize {
        self.written.len() + self.held.len() + self.queued.len()
    }
}

/// Keeps the later of two uses of a session, on each of the clocks.
fn later(map: &mut HashMap<Id, Use>, id: &Id, used: Use) {
    let merge = |kept: &mut Use| {
        let elapsed = kept.elapsed.max(used.elapsed);
        let shared = if used.shared.map(|it| it.0) >= kept.shared.map(|it| it.0) { used.shared } else { kept.shared };
        *kept = Use { elapsed, shared, ..if used.at >= kept.at { used } else { *kept } };
    };
    map.entry(id.clone()).and_modify(merge).or_insert(used);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{HOUR, MINUTE, SECOND};

    fn id() -> Id {
        "s".parse().expect("an id")
    }

    fn at(ms: i64) -> Use {
        Use { at: UtcMs(ms), elapsed: ms, window: MINUTE, kind: ActivityKind::Capture, shared: None }
    }

    fn write(throttle: &mut Throttle, now: i64) -> Vec<i64> {
        let batch = throttle.take(now);
        throttle.written(&batch);
        batch.iter().map(|(_, used)| used.at.0).collect()
    }

    #[test]
    fn a_shared_use_is_not_hidden_by_what_comes_after_it() {
        let mut throttle = Throttle::default();
        let read = (UtcMs(1), ActivityKind::Timeline);
        throttle.offer(&id(), Use { kind: read.1, shared: Some(read), ..at(1) });
        throttle.offer(&id(), at(2));
        let batch = throttle.take(2);
        assert_eq!((batch[0].1.at, batch[0].1.shared), (UtcMs(2), Some(read)));
    }

    #[test]
    fn twenty_polls_at_three_seconds_write_once_and_then_exactly() {
        let mut throttle = Throttle::default();
        let mut writes = Vec::new();
        for poll in 0..20 {
            throttle.offer(&id(), at(poll * 3 * SECOND));
            writes.extend(write(&mut throttle, poll * 3 * SECOND));
        }
        assert_eq!(writes, [0], "one row in a minute");
        assert_eq!(write(&mut throttle, MINUTE - 1), [0; 0]);
        assert_eq!(write(&mut throttle, MINUTE), [57 * SECOND], "exact once the minute ends");
    }

    #[test]
    fn a_failed_write_arms_nothing_and_loses_nothing() {
        let mut throttle = Throttle::default();
        throttle.offer(&id(), at(0));
        let batch = throttle.take(0);
        throttle.failed(batch);
        assert_eq!(throttle.offer(&id(), at(1)), Offer::Queued);
        assert_eq!(write(&mut throttle, 1), [1]);
    }

    #[test]
    fn a_touch_during_a_write_is_not_swallowed() {
        let mut throttle = Throttle::default();
        throttle.offer(&id(), at(0));
        let batch = throttle.take(0);
        throttle.offer(&id(), at(5));
        throttle.written(&batch);
        assert_eq!(write(&mut throttle, 6), [5]);
    }

    #[test]
    fn an_older_touch_never_replaces_a_newer_one() {
        let mut throttle = Throttle::default();
        throttle.offer(&id(), at(10));
        throttle.offer(&id(), at(4));
        assert_eq!(write(&mut throttle, 10), [10]);
    }

    #[test]
    fn a_step_of_the_wall_clock_neither_lengthens_nor_shortens_a_window() {
        for step in [-24 * HOUR, 24 * HOUR] {
            let mut throttle = Throttle::default();
            let stepped = |elapsed| Use { at: UtcMs(elapsed + step), elapsed, ..at(0) };
            throttle.offer(&id(), at(0));
            assert_eq!(write(&mut throttle, 0), [0]);
            assert_eq!(throttle.offer(&id(), stepped(MINUTE - 1)), Offer::Held, "{step}");
            assert_eq!(write(&mut throttle, MINUTE), [MINUTE - 1 + step], "{step}");
            assert_eq!(throttle.offer(&id(), stepped(2 * MINUTE)), Offer::Queued, "{step}");
        }
    }

    #[test]
    fn a_clean_stop_takes_what_was_held_back() {
        let mut throttle = Throttle::default();
        throttle.offer(&id(), at(0));
        write(&mut throttle, 0);
        assert_eq!(throttle.offer(&id(), at(3)), Offer::Held);
        assert_eq!(throttle.take_all().len(), 1);
    }

    #[test]
    fn what_nobody_uses_is_forgotten() {
        let mut throttle = Throttle::default();
        throttle.offer(&id(), at(0));
        write(&mut throttle, 0);
        write(&mut throttle, MINUTE);
        assert_eq!(throttle.remembered(), 0);
    }
}
