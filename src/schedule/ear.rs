//! Tells ticks from rings, and a late bell from a silent one.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until};

use crate::clock::{Clock, timer};
use crate::cron::Expression;
use crate::time::{HOUR, Ms, SECOND, UtcMs};

/// How late the bell may be before it counts as silent.
const LATE: Ms = 2 * SECOND;

/// How long the bell is trusted when no tick is in sight.
const LONGEST_SILENCE: Ms = 48 * HOUR;

/// How a tick was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The bell rang.
    Bell,
    /// The bell should have rung twice by now, and did not.
    Silence,
}

/// Listens to the bell.
pub(super) struct Ear {
    rings: Arc<Notify>,
    expression: Expression,
    clock: Arc<dyn Clock>,
    /// Ticks up to this time are known.
    since: UtcMs,
    /// When the bell counts as silent, on a clock that nobody sets.
    silent_at: Instant,
}

impl Ear {
    /// Listens to `rings` for the ticks of `expression` from now on.
    pub(super) fn new(rings: Arc<Notify>, expression: Expression, clock: Arc<dyn Clock>) -> Self {
        let since = clock.now();
        let mut ear = Self { rings, expression, clock, since, silent_at: timer() };
        ear.trust();
        ear
    }

    /// Waits for the next tick, by the bell or by its silence. Nothing is lost when this is dropped half-way.
    pub(super) async fn tick(&mut self) -> Heard {
        let silent_at = self.silent_at;
        tokio::select! {
            biased;
            () = self.ring() => Heard::Bell,
            () = sleep_until(silent_at) => {
                self.since = self.clock.now();
                Heard::Silence
            }
        }
    }

    /// Waits for the next tick by the bell alone. Nothing is lost when this is dropped half-way.
    pub(super) async fn ring(&mut self) {
        loop {
            self.rings.notified().await;
            if self.is_tick() {
                return;
            }
        }
    }

    /// Trusts the bell anew, until its second tick from now on.
    pub(super) fn trust(&mut self) {
        let now = self.clock.now();
        let wait = match self.expression.next_n(now, 2).last() {
            Some(second) => second.since(now).min(LONGEST_SILENCE) + LATE,
            None => LONGEST_SILENCE,
        };
        self.silent_at = timer() + Duration::from_millis(u64::try_from(wait).unwrap_or(0));
    }

    /// Returns whether the ring that was just heard means a tick.
    ///
    /// A ring that came too early, by a clock that was set back a little, leaves its tick to the next ring.
    fn is_tick(&mut self) -> bool {
        let now = self.clock.now();
        // When the clock was set back, ticks are counted from there.
        self.since = self.since.min(now);
        let tick = self.expression.is_utc() || self.expression.is_due(self.since, now);
        if tick {
            self.since = now;
        }
        tick
    }
}
