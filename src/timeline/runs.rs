//! What the timeline says about runs: that one began, and how it finished.

use serde_json::json;

use crate::entry::{EntryKind, NewEntry};
use crate::session::{Run, RunStatus, Session};
use crate::time::{UtcMs, spoken};
use crate::timeline::phrase::full_stop;
use crate::timeline::{Actor, Grounds, entry, evidence};

/// The most characters of what a run reported that a sentence repeats.
const MOST_SHOWN: usize = 200;

/// Tells that a run began.
#[must_use]
pub fn run_started((session, run): (&Session, &Run), actor: &Actor, now: UtcMs) -> NewEntry {
    let message = format!("Run {} began{}.", run.id, if run.opened_session { " and opened the session" } else { "" });
    about(EntryKind::RunStarted, (session, run), message, (actor, now))
}

/// Tells how a run finished, with the first line of what it reported.
#[must_use]
pub fn run_finished(
    (session, run): (&Session, &Run),
    status: RunStatus,
    result: Option<&str>,
    actor: &Actor,
    now: UtcMs,
) -> NewEntry {
    let late = if run.status == RunStatus::Stale { ", after it had been called stale" } else { "" };
    let took = spoken(now.since(run.started_at));
    let how = match status {
        RunStatus::Succeeded => "succeeded",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "was called off",
        RunStatus::Running | RunStatus::Stale => "finished",
    };
    let said = result.and_then(first_line);
    let tail = said.as_ref().map_or_else(|| ".".to_owned(), |said| format!(": {}", full_stop(said)));
    let message = format!("Run {} {how} after {took}{late}{tail}", run.id);
    let mut entry = about(EntryKind::RunFinished, (session, run), message, (actor, now));
    entry.reason = Some(status.to_string());
    if let Some(map) = entry.evidence.as_object_mut() {
        map.insert("status".to_owned(), json!(status));
        map.insert("opened_session".to_owned(), json!(run.opened_session));
        map.insert("was_stale".to_owned(), json!(run.status == RunStatus::Stale));
        map.insert("started_at".to_owned(), json!(run.started_at));
    }
    entry
}

fn about(
    kind: EntryKind,
    (session, run): (&Session, &Run),
    message: String,
    (actor, now): (&Actor, UtcMs),
) -> NewEntry {
    let mut map = evidence(Grounds::of(session), actor);
    map.insert("run_id".to_owned(), json!(run.id));
    NewEntry { kind, once: Some(format!("{kind}:{}", run.id)), ..entry(session, message, map, actor, now) }
}

/// Returns the first line that says something, cut where it gets too long for a sentence.
fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let plain = || line.chars().filter(|c| !c.is_control());
    let shown: String = plain().take(MOST_SHOWN).collect();
    Some(if plain().nth(MOST_SHOWN).is_some() { format!("{shown}…") } else { shown })
}

#[cfg(test)]
mod tests {
    use super::{MOST_SHOWN, first_line};

    #[test]
    fn a_sentence_repeats_one_line_and_not_a_whole_report() {
        assert_eq!(first_line("\n  all green \nmore"), Some("all green".to_owned()));
        assert_eq!(first_line(" \n"), None);
        let long = first_line(&"é".repeat(MOST_SHOWN + 1)).expect("a line");
        assert_eq!(long.chars().count(), MOST_SHOWN + 1);
        assert!(long.ends_with('…'));
    }
}
