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
    /// How the wall clock ran ahead of waking time, oldest first.
    #[serde(default)]
    leaps: Vec<Leap>,
}

/// A stretch in which the wall clock moved further than waking time passed: a sleep, or somebody set it forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Leap {
    /// When it was noticed, on the wall clock.
    seen_at: i64,
    /// By how much the wall clock ran ahead.
    by: Ms,
}

/// How many leaps are remembered one by one; older ones are put together.
const LEAPS: usize = 100;

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
            leaps: Vec::new(),
        };
        let mut jumped = false;
        if let Some(last) = last.filter(|last| last.boot_id == readings.boot_id) {
            let awake = readings.awake - last.awake;
            let slept = (readings.elapsed - last.elapsed) - awake;
            let ahead = (wall - last.wall) - awake;
            jumped = ahead.abs() > TOLERANCE;
            readings.leaps = with_leap(&last.leaps, Leap { seen_at: wall, by: ahead });
            readings.settling_until = if slept > SECOND { readings.awake + SETTLING } else { last.settling_until };
        }
        let settled = readings.elapsed >= SETTLING && readings.awake >= readings.settling_until;
        Self { settled, jumped, readings }
    }

    /// Returns how much waking time has passed from `at` to `now`, two times of the wall clock: for judging silence that
    /// nobody but this host has measured. Sleep is not idleness.
    pub(crate) fn waking_since(&self, at: UtcMs, now: UtcMs) -> Ms {
        let leaps = self.readings.leaps.iter().filter(|leap| leap.seen_at > at.0);
        // A use between the leap and its being noticed cannot have slept for longer than it is old.
        let slept: Ms = leaps.map(|leap| leap.by.min(leap.seen_at - at.0)).sum();
        (now.since(at) - slept).max(0)
    }
}

/// Adds a leap, if it is one. Too many are put together under the time of the later one, which can only make silence
/// shorter.
fn with_leap(leaps: &[Leap], leap: Leap) -> Vec<Leap> {
    let mut leaps = leaps.to_vec();
    if leap.by > SECOND {
        leaps.push(leap);
    }
    if leaps.len() > LEAPS {
        let oldest = leaps.remove(0);
        leaps[0].by += oldest.by;
    }
    leaps
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
    fn sleep_is_not_idleness() {
        let clock = clock();
        let used = clock.now();
        let first = HostClock::read(&clock, None).readings;
        clock.advance(HOUR);
        clock.sleep(8 * HOUR);
        let woken = HostClock::read(&clock, Some(&first));
        assert_eq!(woken.waking_since(used, clock.now()), HOUR);
        clock.advance(HOUR);
        let between = clock.now().minus(HOUR / 2);
        let later = HostClock::read(&clock, Some(&woken.readings));
        assert_eq!(later.waking_since(used, clock.now()), 2 * HOUR);
        assert_eq!(later.waking_since(between, clock.now()), HOUR / 2, "what came after the sleep is as old as it is");
        assert_eq!(woken.waking_since(clock.now(), clock.now()), 0);
    }

    #[test]
    fn a_use_between_waking_and_its_being_noticed_is_late_by_no_more_than_that() {
        let clock = clock();
        let first = HostClock::read(&clock, None).readings;
        clock.sleep(8 * HOUR);
        let used = clock.now();
        clock.advance(MINUTE);
        let woken = HostClock::read(&clock, Some(&first));
        clock.advance(6 * HOUR);
        assert_eq!(woken.waking_since(used, clock.now()), 6 * HOUR);
    }

    #[test]
    fn many_leaps_are_put_together_and_none_is_lost() {
        let clock = clock();
        let used = clock.now();
        let mut host = HostClock::read(&clock, None);
        for _ in 0..3 * LEAPS {
            clock.sleep(MINUTE);
            host = HostClock::read(&clock, Some(&host.readings));
        }
        assert_eq!(host.readings.leaps.len(), LEAPS);
        assert_eq!(host.waking_since(used, clock.now()), 0);
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
