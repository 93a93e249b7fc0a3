//! Does the reaper act, and did it lately?

use crate::cli::doctor::checks::store::{Opened, StoreFacts};
use crate::cli::doctor::finding::{Check, Finding, counted};
use crate::cron::Expression;
use crate::time::{UtcMs, spoken};

const CHECK: Check = Check("schedule");

/// So many ticks may be missed before that is worth a word.
const TICKS: usize = 3;

/// When passes are due, and whether they act.
#[derive(Debug, Clone)]
pub(crate) struct ScheduleFacts {
    /// When a pass is due; none when that cannot be told.
    pub(crate) due: Option<Expression>,
    /// The settings pause the reaper.
    pub(crate) paused: bool,
}

/// The reaper is not held back, and a worker makes its passes.
pub(crate) fn check(store: &StoreFacts, schedule: &ScheduleFacts, now: UtcMs) -> Vec<Finding> {
    let Some(opened) = store.opened() else { return Vec::new() };
    let mut found = paused(opened, schedule);
    found.push(passes(opened, schedule, now));
    found
}

fn paused(opened: &Opened, schedule: &ScheduleFacts) -> Vec<Finding> {
    let by_person = opened.paused.as_ref().map(|note| {
        CHECK.warning(format!("The reaper is paused {note}, so nothing is reaped; `sexton resume` lets it act again."))
    });
    let by_settings = schedule.paused.then(|| {
        CHECK.warning("The settings pause the reaper, so nothing is reaped; set safety.paused to false to let it act.")
    });
    by_person.into_iter().chain(by_settings).collect()
}

fn passes(opened: &Opened, schedule: &ScheduleFacts, now: UtcMs) -> Finding {
    let start = "`sexton up` or `sexton serve` makes them";
    let Some(last) = opened.last_pass else {
        return match opened.open_sessions {
            0 => CHECK.ok(format!("There was no pass yet; {start}.")),
            open => CHECK.warning(format!(
                "Nothing looks after {}: there was no pass yet; {start}.",
                counted(open, "open session")
            )),
        };
    };
    let ago = spoken(now.since(last).max(0));
    let late = schedule.due.as_ref().and_then(|due| nth_after(due, last, TICKS)).is_some_and(|tick| tick < now);
    match (late, opened.scheduled, opened.open_sessions) {
        (true, true, _) => CHECK.warning(format!(
            "The last pass was {ago} ago and {TICKS} more were due since: no worker runs, or it cannot work; {start}, and its log says what is wrong."
        )),
        (true, false, 1..) => CHECK.warning(format!(
            "The last pass was {ago} ago and none of the latest was the schedule's, so idle sessions stay; {start}."
        )),
        (false, ..) | (true, false, 0) => CHECK.ok(format!("The last pass was {ago} ago.")),
    }
}

fn nth_after(due: &Expression, from: UtcMs, count: usize) -> Option<UtcMs> {
    (0..count).try_fold(from, |at, _| due.next_after(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::testing::one;
    use crate::cli::doctor::finding::Level;
    use crate::time::{HOUR, MINUTE};

    const NOW: UtcMs = UtcMs(1_800_000_000_000);

    fn schedule() -> ScheduleFacts {
        ScheduleFacts { due: Some(Expression::parse("0 * * * * *", "UTC").unwrap()), paused: false }
    }

    fn said(change: impl FnOnce(&mut Opened)) -> (Level, String) {
        let mut opened = Opened { last_pass: Some(NOW), scheduled: true, ..Opened::default() };
        change(&mut opened);
        one(check(&StoreFacts::Opened(opened), &schedule(), NOW))
    }

    #[test]
    fn a_worker_that_missed_three_ticks_is_told() {
        assert_eq!(said(|_| ()).0, Level::Ok);
        assert_eq!(said(|opened| opened.last_pass = Some(NOW.minus(3 * MINUTE))).0, Level::Ok);
        let (level, said) = said(|opened| opened.last_pass = Some(NOW.minus(3 * MINUTE + 1)));
        assert!(level == Level::Warning && said.starts_with("The last pass was 3 min ago"), "{said}");
    }

    #[test]
    fn whoever_never_had_a_worker_is_told_only_when_something_could_be_reaped() {
        let manual = |open| {
            said(|opened| {
                *opened = Opened { open_sessions: open, last_pass: Some(NOW.minus(HOUR)), ..Opened::default() };
            })
        };
        assert_eq!(manual(0).0, Level::Ok);
        assert_eq!(manual(2).0, Level::Warning);
        let none = |open| said(|opened| *opened = Opened { open_sessions: open, ..Opened::default() });
        assert_eq!(none(0).0, Level::Ok);
        assert!(none(2).1.starts_with("Nothing looks after 2 open sessions: there was no pass yet"));
    }

    #[test]
    fn a_reaper_that_is_held_back_is_told_by_whom() {
        let opened = Opened { paused: Some("by ann: demo".to_owned()), last_pass: Some(NOW), ..Opened::default() };
        let found = check(&StoreFacts::Opened(opened), &ScheduleFacts { paused: true, ..schedule() }, NOW);
        let levels: Vec<Level> = found.iter().map(|finding| finding.level).collect();
        assert_eq!(levels, [Level::Warning, Level::Warning, Level::Ok]);
        assert!(found[0].message.starts_with("The reaper is paused by ann: demo"), "{found:?}");
    }

    #[test]
    fn nothing_is_said_about_passes_of_a_store_that_cannot_be_opened() {
        assert!(check(&StoreFacts::Missing, &schedule(), NOW).is_empty());
    }
}
