//! What this host's own clocks say since the last pass: did it boot or wake just now, was its wall clock moved?
//!
//! The last readings are kept in the store, so that a one-shot pass knows them too. They may be compared only when the
//! machine was not booted in between.

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::time::{MINUTE, Ms, SECOND, UtcMs};

/// For how long after a boot or a wake-up a runner that cannot be reached is not called gone: this host's own network
/// may be what is missing.
const SETTLING: Ms = 2 * MINUTE;

/// Wall and monotonic clock may disagree by this much between two passes.
const TOLERANCE: Ms = MINUTE;

/// Readings of all clocks at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Readings {
    boot_id: String,
    wall: i64,
    awake: Ms,
    elapsed: Ms,
    /// The `awake` reading until which the host is settling after a wake-up.
    settling_until: Ms,
}

/// What the readings of this pass and the last one tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostClock {
    /// The host has been up and awake for long enough to blame a missing runner on the other side.
    pub(crate) settled: bool,
    /// The wall clock moved otherwise than time passed: a sleep, or somebody set it.
    pub(crate) jumped: bool,
    /// The readings to keep for the next pass.
    pub(crate) readings: Readings,
}

impl HostClock {
    /// Reads the clocks and compares them with the last readings.
    pub(crate) fn read(clock: &dyn Clock, last: Option<&Readings>) -> Self {
        let UtcMs(wall) = clock.now();
        let mut readings = Readings {
            boot_id: clock.boot_id(),
            wall,
            awake: clock.awake(),
            elapsed: clock.elapsed(),
            settling_until: 0,
        };
        let mut jumped = false;
        if let Some(last) = last.filter(|last| last.boot_id == readings.boot_id) {
            let awake = readings.awake - last.awake;
            let slept = (readings.elapsed - last.elapsed) - awake;
            jumped = ((wall - last.wall) - awake).abs() > TOLERANCE;
            readings.settling_until = if slept > SECOND { readings.awake + SETTLING } else { last.settling_until };
        }
        let settled = readings.elapsed >= SETTLING && readings.awake >= readings.settling_until;
        Self { settled, jumped, readings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::time::HOUR;

    fn clock() -> ManualClock {
        ManualClock::at(UtcMs(1_700_000_000_000))
    }

    #[test]
    fn a_first_pass_on_a_machine_that_is_up_is_settled() {
        let host = HostClock::read(&clock(), None);
        assert!(host.settled && !host.jumped);
    }

    #[test]
    fn two_minutes_after_boot_it_is_settled() {
        let clock = clock();
        clock.set_uptime(SETTLING - 1);
        assert!(!HostClock::read(&clock, None).settled);
        clock.advance(1);
        assert!(HostClock::read(&clock, None).settled);
    }

    #[test]
    fn after_a_sleep_it_settles_for_two_waking_minutes() {
        let clock = clock();
        let before = HostClock::read(&clock, None).readings;
        clock.sleep(8 * HOUR);
        let woken = HostClock::read(&clock, Some(&before));
        assert!(!woken.settled && woken.jumped);
        clock.advance(SETTLING - 1);
        let later = HostClock::read(&clock, Some(&woken.readings));
        assert!(!later.settled && !later.jumped);
        clock.advance(1);
        assert!(HostClock::read(&clock, Some(&later.readings)).settled);
    }

    #[test]
    fn a_moved_wall_clock_is_noticed_in_both_directions() {
        for step in [TOLERANCE + 1, -TOLERANCE - 1] {
            let clock = clock();
            let before = HostClock::read(&clock, None).readings;
            clock.advance(MINUTE);
            clock.step_wall(step);
            let host = HostClock::read(&clock, Some(&before));
            assert!(host.jumped && host.settled, "{step}");
        }
        let clock = clock();
        let before = HostClock::read(&clock, None).readings;
        clock.step_wall(TOLERANCE);
        assert!(!HostClock::read(&clock, Some(&before)).jumped);
    }

    #[test]
    fn readings_of_another_boot_are_not_compared() {
        let clock = clock();
        let mut before = HostClock::read(&clock, None).readings;
        before.boot_id = "another".into();
        clock.step_wall(HOUR);
        assert!(!HostClock::read(&clock, Some(&before)).jumped);
    }
}
