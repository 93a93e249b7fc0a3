//! What is told of an end: of an engine that is gone, and of a row that was closed without a stop.

use serde_json::json;

use crate::entry::{EntryKind, NewEntry};
use crate::protocol::{EndOutcome, Ended};
use crate::session::{Id, Session};
use crate::time::UtcMs;
use crate::timeline::phrase::{full_stop, how_it_left, join, quiet, resume, silence};
use crate::timeline::{Actor, Grounds, RELOCATED, entry, evidence, put_ended};
use crate::verdict::Verdict;

/// Tells that a runner stopped the engine, or says that it is gone, and that the row is closed with its reason.
///
/// `outcome` says how the runner told: with its answer to a stop, or, as `already_stopped`, later.
#[must_use]
pub fn engine_gone(grounds: Grounds<'_>, outcome: EndOutcome, ended: &Ended, actor: &Actor, now: UtcMs) -> NewEntry {
    let session = grounds.session;
    let reason: Option<Verdict> = ended.reason.parse().ok();
    // The runner may tell of the end long after it, and the stop itself takes time: what counts is how silent the session
    // was when the stop began.
    let ladder = ended.stages.last().map_or(0, |last| last.at_ms.max(0));
    let then = now.minus(ended.ended_ago_ms.unwrap_or(0).max(0)).minus(ladder);
    let idle = grounds.runner_idle_ms;
    let why = match reason {
        Some(Verdict::Idle) => format!("Stopped after {}.", silence(session, idle, then)),
        Some(Verdict::Stalled) => format!("Stopped in a stalled turn, after {}.", silence(session, idle, then)),
        Some(Verdict::AwaitingExpired) => {
            format!("Stopped while it waited for an answer that nobody gave, after {}.", silence(session, idle, then))
        }
        Some(Verdict::Stray) => "Stopped: its row had been closed before.".to_owned(),
        Some(Verdict::EndedByPerson) => format!("Ended by {}.", actor.name),
        Some(Verdict::Exited) => match &ended.detail {
            Some(detail) => format!("The engine is gone: {}", full_stop(detail)),
            None => "The engine left by itself.".to_owned(),
        },
        Some(Verdict::StartFailed) => match &ended.detail {
            Some(detail) => format!("The engine did not start: {}", full_stop(detail)),
            None => "The engine did not start.".to_owned(),
        },
        Some(Verdict::HostReboot) => "The engine is gone since its machine was booted again.".to_owned(),
        _ if ended.reason == RELOCATED => "Stopped so that it could be moved to another runner.".to_owned(),
        _ => format!("The runner ended the engine ({}).", ended.reason),
    };
    let message = join([Some(why), how_it_left(ended), ended.resume.as_ref().map(resume), None]);
    let mut evidence = evidence(grounds, actor);
    put_ended(&mut evidence, outcome, ended);
    evidence.entry("rule").or_insert_with(|| json!(ended.reason));
    NewEntry {
        kind: EntryKind::Ended,
        reason: Some(ended.reason.clone()),
        engine_gone: true,
        ..entry(session, message, evidence, actor, now)
    }
}

/// Tells that the engine of a row that had ended or moved on before is gone now.
#[must_use]
pub fn stray_stopped(grounds: Grounds<'_>, runner: &Id, ended: &Ended, actor: &Actor, now: UtcMs) -> NewEntry {
    let first = "Stopped an engine that was still there after its row had been closed or had moved on.".to_owned();
    let message = join([Some(first), how_it_left(ended), ended.resume.as_ref().map(resume)]);
    let mut evidence = evidence(grounds, actor);
    put_ended(&mut evidence, EndOutcome::Stopped, ended);
    evidence.insert("rule".into(), json!(ended.reason));
    evidence.insert("runner_id".into(), json!(runner));
    evidence.insert("generation".into(), json!(ended.generation));
    NewEntry {
        kind: EntryKind::Stopped,
        generation: ended.generation,
        reason: Some(ended.reason.clone()),
        engine_gone: true,
        ..entry(grounds.session, message, evidence, actor, now)
    }
}

/// Tells that a row was closed without a stop: `orphaned`, `machine_gone` or `start_failed`.
#[must_use]
pub fn closed_without_stop(grounds: Grounds<'_>, verdict: Verdict, why: &str, actor: &Actor, now: UtcMs) -> NewEntry {
    let session = grounds.session;
    let runner = &session.runner_id;
    let message = if verdict == Verdict::MachineGone {
        format!(
            "Closed after {}. The engine was not stopped, because runner {runner} could not be reached ({why}); if it returns and still holds the engine, the engine is stopped then, or the session is reopened if it is in use.",
            silence(session, None, now)
        )
    } else if verdict == Verdict::StartFailed {
        format!("Closed: the engine never started; runner {runner} holds none for this session.")
    } else {
        format!(
            "Closed: runner {runner} is up and holds no engine for this session, which was quiet for {}. There was nothing to stop.",
            quiet(session, now)
        )
    };
    let mut evidence = evidence(grounds, actor);
    evidence.insert("rule".into(), json!(verdict));
    let outcome = if verdict == Verdict::MachineGone { "not_reached" } else { EndOutcome::NotTracked.as_str() };
    evidence.insert("outcome".into(), json!(outcome));
    NewEntry {
        kind: EntryKind::Ended,
        reason: Some(verdict.to_string()),
        ..entry(session, message, evidence, actor, now)
    }
}

/// Tells that an engine certainly does not run, and why.
#[must_use]
pub fn start_failed(session: &Session, why: &str, actor: &Actor, now: UtcMs) -> NewEntry {
    let message = format!("Closed: {} did not start on runner {}: {why}", session.engine, session.runner_id);
    let mut entry = closed_without_stop(Grounds::of(session), Verdict::StartFailed, why, actor, now);
    entry.evidence["detail"] = json!(why);
    NewEntry { message, ..entry }
}
