//! Cron expressions: what they accept, and when they ring next. Pure: no clock, no task.
//!
//! croner reads them with the options that tokio-cron-scheduler uses, so both agree on every field. Zones are handled
//! here: the scheduler freezes a zone into the offset that it had on the day of its start, and croner alone skips the
//! repeated hour in autumn. So croner only ever searches under a fixed offset, and this file walks from one change of
//! the clocks to the next:
//!
//! - An expression that names its hours (`30 2 * * *`) rings once per day that it means: a time that the spring change
//!   leaves out rings when the clocks have jumped, a time that the autumn change repeats rings the first time only.
//! - An expression for every hour (`*/15 * * * *`) follows real time: it rings through both passes of a repeated hour.

use chrono::{DateTime, FixedOffset};
use croner::Cron;
use croner::parser::{CronParser, Seconds};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::time::UtcMs;

/// How many changes of the clocks a search crosses before it calls an expression silent: more than a lifetime.
const MOST_CHANGES: usize = 400;

/// The names that stand for whole expressions.
const ALIASES: [&str; 6] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@hourly"];

/// A cron expression in its zone, which fires again and again.
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    cron: Cron,
    zone: TimeZone,
    /// It names its hours, and so means each of them once a day.
    once: bool,
}

impl Expression {
    /// Parses five fields, six (seconds first), or an alias such as `@hourly`, meant in the zone named `timezone`.
    ///
    /// # Errors
    /// Says in one sentence, with croner's own reason, what is wrong with the expression or the zone; an expression
    /// that never fires (30 February) is refused too.
    pub fn parse(text: &str, timezone: &str) -> Result<Self, String> {
        let zone = TimeZone::get(timezone)
            .map_err(|_| format!("\"{timezone}\" is not a time zone such as \"UTC\" or \"Europe/Berlin\""))?;
        let refused = |why: &dyn std::fmt::Display| format!("\"{text}\" is not a cron expression: {why}");
        let six = six_fields(text).map_err(|why| refused(&why))?;
        let parser = CronParser::builder().seconds(Seconds::Required).dom_and_dow(true).build();
        let cron = parser.parse(&six).map_err(|error| refused(&error))?;
        let once = !(cron.pattern.hours.from_wildcard || cron.pattern.hours.is_all_set());
        let expression = Self { text: six, cron, zone, once };
        // There is no field for the year, so what fires at all has fired since 1970.
        match expression.next_after(UtcMs(0)) {
            Some(_) => Ok(expression),
            None => Err(format!("\"{text}\" never fires: no date fits all of its fields")),
        }
    }

    /// Returns the first time after `after` at which it rings; none when there is none in sight.
    #[must_use]
    pub fn next_after(&self, after: UtcMs) -> Option<UtcMs> {
        let mut from = after.0.div_euclid(1_000) + 1;
        for _ in 0..MOST_CHANGES {
            if self.once {
                from = self.past_repeated(from)?;
            }
            let offset = self.offset_at(from)?;
            let tick = self.search(from, offset)?;
            let Some((change, new_offset)) = self.next_change(from) else { return Some(UtcMs(tick * 1_000)) };
            if tick < change {
                return Some(UtcMs(tick * 1_000));
            }
            if self.once && tick < change + i64::from(new_offset - offset) {
                return Some(UtcMs(change * 1_000));
            }
            from = change;
        }
        None
    }

    /// Returns the next `count` times after `after`, fewer when there are no more.
    #[must_use]
    pub fn next_n(&self, after: UtcMs, count: usize) -> Vec<UtcMs> {
        std::iter::successors(self.next_after(after), |tick| self.next_after(*tick)).take(count).collect()
    }

    /// Returns whether each ring of [`Self::bell`] is one of its own.
    #[must_use]
    pub fn is_utc(&self) -> bool {
        self.zone == TimeZone::UTC
    }

    /// Returns the expression for a bell that runs in UTC and rings at least whenever this one is due.
    ///
    /// In UTC it is the expression itself. In another zone it is every minute at the same seconds, since offsets are
    /// whole minutes: whoever hears that bell must ask [`Self::is_due`].
    #[must_use]
    pub fn bell(&self) -> String {
        if self.is_utc() {
            return self.text.clone();
        }
        let seconds = self.text.split_whitespace().next().filter(|field| !field.starts_with('@')).unwrap_or("0");
        format!("{seconds} * * * * *")
    }

    /// Returns whether it rang in the time after `last`, up to and including `now`.
    #[must_use]
    pub fn is_due(&self, last: UtcMs, now: UtcMs) -> bool {
        self.next_after(last).is_some_and(|tick| tick <= now)
    }

    /// Returns the first second from `from` on that matches under a fixed offset.
    fn search(&self, from: i64, offset: i32) -> Option<i64> {
        let local = DateTime::from_timestamp(from, 0)?.with_timezone(&FixedOffset::east_opt(offset)?);
        self.cron.find_next_occurrence(&local, true).ok().map(|tick| tick.timestamp())
    }

    /// Moves a second inside a repeated stretch of local time to the end of that stretch.
    fn past_repeated(&self, second: i64) -> Option<i64> {
        let after = Timestamp::from_second(second.checked_add(1)?).ok()?;
        let Some(change) = self.zone.preceding(after).next() else { return Some(second) };
        let at = change.timestamp().as_second();
        let repeated = i64::from(self.offset_at(at.checked_sub(1)?)? - change.offset().seconds());
        Some(second.max(at + repeated.max(0)))
    }

    fn offset_at(&self, second: i64) -> Option<i32> {
        Some(self.zone.to_offset(Timestamp::from_second(second).ok()?).seconds())
    }

    /// Returns the next change of the clocks after `second`, and the offset from then on.
    fn next_change(&self, second: i64) -> Option<(i64, i32)> {
        let change = self.zone.following(Timestamp::from_second(second).ok()?).next()?;
        Some((change.timestamp().as_second(), change.offset().seconds()))
    }
}

/// Brings an expression into the form that the scheduler wants: seconds first, or an alias.
fn six_fields(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.split_whitespace().count() {
        1 if ALIASES.iter().any(|alias| alias.eq_ignore_ascii_case(text)) => Ok(text.to_owned()),
        1 if text.starts_with('@') => Err(format!("it is none of {}", ALIASES.join(", "))),
        5 => Ok(format!("0 {text}")),
        6 => Ok(text.to_owned()),
        count => Err(format!("it has {count} fields instead of five, or six with the seconds first")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2025-01-01T00:00:00Z";

    fn at(text: &str) -> UtcMs {
        text.parse().unwrap()
    }

    fn parse(text: &str, zone: &str) -> Expression {
        Expression::parse(text, zone).unwrap()
    }

    fn ticks(text: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        parse(text, zone).next_n(at(after), count).iter().map(|tick| tick.to_string()[..19].to_owned()).collect()
    }

    #[test]
    fn five_fields_six_fields_and_aliases_are_read() {
        for (text, next) in [
            ("0 * * * * *", "2025-01-01T00:01:00"),
            ("* * * * *", "2025-01-01T00:01:00"),
            ("*/10 * * * * *", "2025-01-01T00:00:10"),
            ("@hourly", "2025-01-01T01:00:00"),
            ("@daily", "2025-01-02T00:00:00"),
            ("0 9 * * MON", "2025-01-06T09:00:00"),
            ("  0 9 L * * ", "2025-01-31T09:00:00"),
            ("0 0 13 * FRI", "2025-06-13T00:00:00"),
        ] {
            assert_eq!(ticks(text, "UTC", NOW, 1), [next], "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused_in_one_sentence() {
        for (text, why) in [
            ("", "it has 0 fields"),
            ("* * * *", "it has 4 fields"),
            ("0 0 0 1 1 * 2030", "it has 7 fields"),
            ("@every 1m", "it has 2 fields"),
            ("@sometimes", "none of @yearly"),
            ("61 * * * *", "not a cron expression"),
            ("* * * * BLA", "illegal character"),
            ("0 0 30 2 *", "never fires"),
            ("ß * * * *", "not a cron expression"),
        ] {
            let error = Expression::parse(text, "UTC").unwrap_err();
            assert!(error.contains(why) && error.starts_with(&format!("\"{text}\"")), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let error = Expression::parse("* * * * *", "Mars/Olympus").unwrap_err();
        assert!(error.contains("Mars/Olympus"), "{error}");
    }

    #[test]
    fn a_time_that_spring_leaves_out_rings_once_when_the_clocks_have_jumped() {
        assert_eq!(
            ticks("30 2 * * *", "America/New_York", "2025-03-08T12:00:00Z", 3),
            ["2025-03-09T07:00:00", "2025-03-10T06:30:00", "2025-03-11T06:30:00"],
        );
        assert_eq!(
            ticks("30 2,14 * * *", "America/New_York", "2025-03-08T20:00:00Z", 2),
            ["2025-03-09T07:00:00", "2025-03-09T18:30:00"],
        );
    }

    #[test]
    fn a_time_that_autumn_repeats_rings_the_first_time_only() {
        assert_eq!(
            ticks("30 1 * * *", "America/New_York", "2025-11-01T12:00:00Z", 2),
            ["2025-11-02T05:30:00", "2025-11-03T06:30:00"],
        );
        for inside_the_second_pass in ["2025-11-02T06:00:00Z", "2025-11-02T06:10:00Z", "2025-11-02T06:59:59Z"] {
            let next = ticks("30 1 * * *", "America/New_York", inside_the_second_pass, 1);
            assert_eq!(next, ["2025-11-03T06:30:00"], "{inside_the_second_pass}");
        }
        assert_eq!(
            ticks("30 2 * * *", "America/New_York", "2025-11-01T12:00:00Z", 2),
            ["2025-11-02T07:30:00", "2025-11-03T07:30:00"],
        );
    }

    #[test]
    fn an_expression_for_every_hour_rings_through_both_changes() {
        assert_eq!(
            ticks("*/30 * * * *", "America/New_York", "2025-11-02T05:00:00Z", 6),
            [
                "2025-11-02T05:30:00",
                "2025-11-02T06:00:00",
                "2025-11-02T06:30:00",
                "2025-11-02T07:00:00",
                "2025-11-02T07:30:00",
                "2025-11-02T08:00:00"
            ],
        );
        assert_eq!(
            ticks("30 * * * *", "America/New_York", "2025-03-09T06:00:00Z", 3),
            ["2025-03-09T06:30:00", "2025-03-09T07:30:00", "2025-03-09T08:30:00"],
        );
    }

    #[test]
    fn a_tick_counts_from_the_last_look_exclusive_to_now_inclusive() {
        let minutely = parse("* * * * *", "UTC");
        let (minute, just_before) = (at("2025-01-01T00:01:00Z"), at("2025-01-01T00:00:59.999Z"));
        assert!(minutely.is_due(at(NOW), minute));
        assert!(!minutely.is_due(at(NOW), just_before));
        assert!(!minutely.is_due(minute, minute.plus(59_999)));
    }

    #[test]
    fn the_bell_is_the_expression_in_utc_and_every_minute_elsewhere() {
        assert_eq!(parse("5 * * * *", "UTC").bell(), "0 5 * * * *");
        assert_eq!(parse("@hourly", "UTC").bell(), "@hourly");
        assert_eq!(parse("20,40 5 3 * * *", "Europe/Berlin").bell(), "20,40 * * * * *");
        assert_eq!(parse("@hourly", "Europe/Berlin").bell(), "0 * * * * *");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-0-9*/,@#LW?+ a-zß]{0,24}") {
            let _ = Expression::parse(&text, "UTC");
        }

        #[test]
        fn ticks_strictly_rise_and_never_lie_behind(start in 1_735_689_600_i64..1_800_000_000, pick in 0_usize..4) {
            let text = ["*/7 * * * *", "30 1,2 * * *", "15 */2 * * *", "0 0 1 * *"][pick];
            let expression = parse(text, "Europe/Berlin");
            let ticks = expression.next_n(UtcMs(start * 1_000 + 500), 20);
            proptest::prop_assert!(ticks.len() == 20 && ticks[0].0 > start * 1_000);
            proptest::prop_assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
