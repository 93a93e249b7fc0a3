//! The only place that reads a clock. Everything else takes `now` as an argument.
//!
//! Three clocks, since each answers another question: [`Clock::now`] tells people's time and may jump,
//! [`Clock::awake`] stands still while the machine sleeps (how long was an engine silent?), and
//! [`Clock::elapsed`] runs on in sleep (how old is this answer?).

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::time::{Ms, UtcMs};

/// A source of time. Cheap to clone behind an [`Arc`].
pub trait Clock: Send + Sync + 'static {
    /// Returns the wall clock's time.
    fn now(&self) -> UtcMs;

    /// Returns milliseconds since some fixed point, not counting time in which the machine slept.
    fn awake(&self) -> Ms;

    /// Returns milliseconds since the machine booted, counting time in which it slept.
    fn elapsed(&self) -> Ms;

    /// Returns a text that is another one after each boot of the machine; readings of [`Clock::awake`] and
    /// [`Clock::elapsed`] may be compared only under the same one.
    fn boot_id(&self) -> String;
}

/// The machine's own clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> UtcMs {
        UtcMs(jiff::Timestamp::now().as_millisecond())
    }

    fn awake(&self) -> Ms {
        // CLOCK_MONOTONIC does not count suspend on Linux.
        read(rustix::time::ClockId::Monotonic)
    }

    fn elapsed(&self) -> Ms {
        read(rustix::time::ClockId::Boottime)
    }

    fn boot_id(&self) -> String {
        // No process outlives a boot, so one look is enough.
        static BOOT_ID: OnceLock<String> = OnceLock::new();
        BOOT_ID.get_or_init(read_boot_id).clone()
    }
}

fn read_boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| "unknown".to_owned(), |id| id.trim().to_owned())
}

fn read(clock: rustix::time::ClockId) -> Ms {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// Returns the time of the runtime's timers, for deadlines; a test may pause it.
#[must_use]
pub fn timer() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// A clock that moves only when told to, for tests and simulations.
#[derive(Debug, Clone)]
pub struct ManualClock {
    inner: Arc<Hands>,
}

#[derive(Debug)]
struct Hands {
    wall: AtomicI64,
    awake: AtomicI64,
    elapsed: AtomicI64,
}

impl ManualClock {
    /// Makes a clock that shows `now`, on a machine that booted a day ago and never slept.
    #[must_use]
    pub fn at(now: UtcMs) -> Self {
        let uptime = 24 * crate::time::HOUR;
        let inner = Hands { wall: now.0.into(), awake: uptime.into(), elapsed: uptime.into() };
        Self { inner: Arc::new(inner) }
    }

    /// Lets `ms` pass on all three clocks.
    pub fn advance(&self, ms: Ms) {
        self.inner.awake.fetch_add(ms, Ordering::SeqCst);
        self.sleep(ms);
    }

    /// Lets the machine sleep for `ms`: the wall clock and [`Clock::elapsed`] move, [`Clock::awake`] does not.
    pub fn sleep(&self, ms: Ms) {
        self.inner.elapsed.fetch_add(ms, Ordering::SeqCst);
        self.step_wall(ms);
    }

    /// Moves the wall clock alone, as a person or a time server does.
    pub fn step_wall(&self, ms: Ms) {
        self.inner.wall.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets how long ago the machine booted.
    pub fn set_uptime(&self, ms: Ms) {
        self.inner.awake.store(ms, Ordering::SeqCst);
        self.inner.elapsed.store(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> UtcMs {
        UtcMs(self.inner.wall.load(Ordering::SeqCst))
    }

    fn awake(&self) -> Ms {
        self.inner.awake.load(Ordering::SeqCst)
    }

    fn elapsed(&self) -> Ms {
        self.inner.elapsed.load(Ordering::SeqCst)
    }

    fn boot_id(&self) -> String {
        "manual".to_owned()
    }
}
