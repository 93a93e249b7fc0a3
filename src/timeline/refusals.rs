//! What is told where a runner keeps an engine: why it refused, and that a closed row was opened again.

use serde_json::json;

use crate::entry::{EntryKind, NewEntry};
use crate::protocol::{Because, EndOutcome};
use crate::session::Id;
use crate::time::{Ms, UtcMs, spoken};
use crate::timeline::{Actor, Grounds, entry, evidence};
use crate::verdict::Verdict;

/// Tells that the runner refused to stop the engine; one such entry per session, generation and last activity.
#[must_use]
pub fn refused(
    grounds: Grounds<'_>,
    because: Option<Because>,
    idle_ms: Option<Ms>,
    actor: &Actor,
    now: UtcMs,
) -> NewEntry {
    let session = grounds.session;
    let message = refusal(&session.runner_id, because, idle_ms);
    let runner_idle_ms = idle_ms.or(grounds.runner_idle_ms);
    let mut evidence = evidence(Grounds { runner_idle_ms, ..grounds }, actor);
    evidence.insert("outcome".into(), json!(EndOutcome::Refused));
    evidence.insert("because".into(), json!(because));
    let last = session.last_activity_at.map_or(0, |at| at.0);
    NewEntry {
        kind: EntryKind::Refused,
        reason: Some(Verdict::Refused.to_string()),
        once: Some(format!("refused:{}:{last}", session.generation)),
        ..entry(session, message, evidence, actor, now)
    }
}

/// Says in one sentence why a runner kept an engine.
#[must_use]
pub fn refusal(runner: &Id, because: Option<Because>, idle_ms: Option<Ms>) -> String {
    match because {
        Some(because) => {
            format!("Kept: runner {runner} refused to stop the engine, since {}.", in_the_way(because, idle_ms))
        }
        None => format!("Kept: runner {runner} refused to stop the engine."),
    }
}

/// Says in part of a sentence what stands in the way of a stop.
#[must_use]
pub fn in_the_way(because: Because, idle_ms: Option<Ms>) -> String {
    match because {
        Because::Generating => "a turn is running".to_owned(),
        Because::BackgroundTasks => "a background task is running".to_owned(),
        Because::AwaitingInput => "it waits for a person's answer".to_owned(),
        Because::PendingWake => "it will wake up by itself".to_owned(),
        Because::Active => match idle_ms {
            Some(ms) => format!("it was last used {} ago", spoken(ms)),
            None => "it was used within its window".to_owned(),
        },
        Because::Generation => "the runner holds another start of the session".to_owned(),
        Because::Stale => "the request rested on an answer that was too old by then".to_owned(),
    }
}

/// Tells that a closed row was opened again.
#[must_use]
pub fn reopened(grounds: Grounds<'_>, because: Because, actor: &Actor, now: UtcMs) -> NewEntry {
    let session = grounds.session;
    let reason = session.end_reason.as_deref().unwrap_or("unknown");
    let message = format!(
        "Reopened: it had been closed as {reason}, but runner {} still holds its engine, and it is in use ({because}).",
        session.runner_id
    );
    let mut evidence = evidence(grounds, actor);
    evidence.insert("because".into(), json!(because));
    NewEntry {
        kind: EntryKind::Reopened,
        reason: Some(because.to_string()),
        ..entry(session, message, evidence, actor, now)
    }
}
