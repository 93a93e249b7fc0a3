//! From outcome to sentence, pure: what a timeline entry says to a person, and the evidence under it.

mod phrase;
mod runs;
mod starts;

use serde_json::{Map, Value, json};

pub use phrase::size;
pub use runs::{run_finished, run_started};
pub use starts::{Freed, RELOCATED, attached_again, moved_back, relocated, resumed, returned, stopped_to_move};

use crate::entry::{EntryKind, NewEntry};
use crate::policy::Decision;
use crate::protocol::{Because, EndOutcome, Ended};
use crate::session::{Id, Run, Session};
use crate::time::{Ms, UtcMs, spoken};
use crate::timeline::phrase::{full_stop, how_it_left, join, quiet, resume, silence};
use crate::verdict::Verdict;

/// Who acts, and in which pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// `sweep`, `runner`, or a person's name.
    pub name: String,
    /// The process that acts.
    pub worker_id: Id,
    /// The pass it acts in.
    pub sweep_id: Option<Id>,
}

/// What an entry about a decision rests on.
#[derive(Debug, Clone, Copy)]
pub struct Grounds<'a> {
    /// The row as it was read for the decision.
    pub session: &'a Session,
    /// The decision; none where the runner's word alone is followed.
    pub decision: Option<&'a Decision>,
    /// The epoch of the runner in the answer that was decided on.
    pub epoch: Option<i64>,
    /// For how long the engine had been silent, as the runner said in that answer.
    pub runner_idle_ms: Option<Ms>,
    /// The session's idle window, where no finding of the decision tells a limit.
    pub window_ms: Option<Ms>,
    /// The rule of the settings that gave the session its limits, if one matched.
    pub policy_rule: Option<&'a str>,
}

impl<'a> Grounds<'a> {
    /// Makes grounds that rest on the row alone.
    #[must_use]
    pub fn of(session: &'a Session) -> Self {
        let window_ms = session.idle_after_ms;
        Self { session, decision: None, epoch: None, runner_idle_ms: None, window_ms, policy_rule: None }
    }

    /// Adds the decision.
    #[must_use]
    pub fn with(self, decision: &'a Decision) -> Self {
        Self { decision: Some(decision), ..self }
    }
}

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
    let why = match reason {
        Some(Verdict::Idle) => format!("Stopped after {}.", silence(session, then)),
        Some(Verdict::Stalled) => format!("Stopped in a stalled turn, after {}.", silence(session, then)),
        Some(Verdict::AwaitingExpired) => {
            format!("Stopped while it waited for an answer that nobody gave, after {}.", silence(session, then))
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
            silence(session, now)
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

/// Tells that a run was marked stale; its session stays.
#[must_use]
pub fn run_stale((session, run): (Option<&Session>, &Run), limit_ms: Ms, actor: &Actor, now: UtcMs) -> NewEntry {
    let last = run.heartbeat_at.unwrap_or(run.started_at);
    let message = format!(
        "Run {} sent no heartbeat for {} and was marked stale. The session stays open.",
        run.id,
        spoken(now.since(last))
    );
    NewEntry {
        session_id: run.session_id.clone(),
        generation: session.map_or(1, |session| session.generation),
        at: now,
        kind: EntryKind::RunStale,
        actor: actor.name.clone(),
        reason: Some(Verdict::Stale.to_string()),
        message,
        evidence: json!({
            "rule": "run_stale_after", "limit_ms": limit_ms, "run_id": run.id, "last_heartbeat_at": last,
            "worker_id": actor.worker_id, "sweep_id": actor.sweep_id,
        }),
        once: Some(format!("run_stale:{}", run.id)),
        engine_gone: false,
    }
}

/// Tells that the session was opened and its engine is being started.
#[must_use]
pub fn started(session: &Session, actor: &Actor, now: UtcMs) -> NewEntry {
    let message = format!("Opened: {} on runner {} in {}.", session.engine, session.runner_id, session.repo);
    NewEntry { kind: EntryKind::Started, ..entry(session, message, evidence(Grounds::of(session), actor), actor, now) }
}

/// Tells that the session came in from another system.
#[must_use]
pub fn imported(session: &Session, actor: &Actor, now: UtcMs) -> NewEntry {
    let (engine, runner, repo) = (&session.engine, &session.runner_id, &session.repo);
    let message = format!("Taken over from another system: {engine} on runner {runner} in {repo}.");
    NewEntry { kind: EntryKind::Imported, ..entry(session, message, evidence(Grounds::of(session), actor), actor, now) }
}

/// The name of a session's own engine, where it acts for itself.
pub const AGENT: &str = "agent";

/// Tells that somebody asked to keep the session: a person, or the engine itself.
#[must_use]
pub fn kept((session, until): (&Session, UtcMs), because: &str, actor: &Actor, now: UtcMs) -> NewEntry {
    let who = if actor.name == AGENT { "The agent itself" } else { &actor.name };
    let message = format!("{who} keeps it until {until}: {because}");
    let mut evidence = evidence(Grounds::of(session), actor);
    evidence.insert("keep_until".into(), json!(until));
    NewEntry { kind: EntryKind::Kept, ..entry(session, message, evidence, actor, now) }
}

/// Tells that the session will be reaped as idle at `due_at` unless something uses it, for people and for the agent in it.
/// `deadline` names the deadline, of which this is told once.
#[must_use]
pub fn warned(grounds: Grounds<'_>, (due_at, deadline): (UtcMs, UtcMs), actor: &Actor, now: UtcMs) -> NewEntry {
    let session = grounds.session;
    let message = format!(
        "Will be stopped in {}, at {due_at}, unless something uses it before: {}. To keep it: `sexton keep {} --for 2h --because \"…\"`.",
        spoken(due_at.since(now)),
        silence(session, now),
        session.id
    );
    let mut evidence = evidence(grounds, actor);
    evidence.insert("rule".into(), json!(Verdict::Idle));
    evidence.insert("due_at".into(), json!(due_at));
    NewEntry {
        kind: EntryKind::Warned,
        reason: Some(Verdict::Idle.to_string()),
        once: Some(warned_once(session, deadline)),
        ..entry(session, message, evidence, actor, now)
    }
}

/// Returns under what a warning of this deadline is written once.
#[must_use]
pub fn warned_once(session: &Session, deadline: UtcMs) -> String {
    format!("warned:{}:{}", session.generation, deadline.0)
}

fn entry(session: &Session, message: String, evidence: Map<String, Value>, actor: &Actor, now: UtcMs) -> NewEntry {
    NewEntry {
        session_id: session.id.clone(),
        generation: session.generation,
        at: now,
        kind: EntryKind::Warned,
        actor: actor.name.clone(),
        reason: None,
        message,
        evidence: Value::Object(evidence),
        once: None,
        engine_gone: false,
    }
}

/// The evidence that every entry about a decision carries.
fn evidence(grounds: Grounds<'_>, actor: &Actor) -> Map<String, Value> {
    let session = grounds.session;
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            map.insert(key.to_owned(), value);
        }
    };
    put("runner_id", json!(session.runner_id));
    put("epoch", json!(grounds.epoch));
    put("runner_idle_ms", json!(grounds.runner_idle_ms));
    put("generation", json!(session.generation));
    put("last_activity_at", json!(session.last_used()));
    put("last_activity_kind", json!(session.last_activity_kind));
    put("last_activity_source", json!(source(session)));
    put("worker_id", json!(actor.worker_id));
    put("sweep_id", json!(actor.sweep_id));
    let limit = grounds.decision.and_then(|decision| decision.limit_ms);
    put("limit_ms", json!(limit.or(grounds.window_ms)));
    put("policy_rule", json!(grounds.policy_rule));
    if let Some(decision) = grounds.decision {
        put("rule", json!(decision.verdict));
        put("findings", json!(decision.findings));
    }
    map
}

fn put_ended(evidence: &mut Map<String, Value>, outcome: EndOutcome, ended: &Ended) {
    let facts = [
        ("outcome", json!(outcome)),
        // The pass that asked for the stop, which need not be the one that closes the row.
        ("sweep_id", json!(ended.sweep_id)),
        ("exit", json!(ended.exit)),
        ("stages", json!(ended.stages)),
        ("containment", json!(ended.containment)),
        ("freed_bytes", json!(ended.freed_bytes)),
        ("not_freed", json!(ended.not_freed)),
        ("resume", json!(ended.resume)),
        ("detail", json!(ended.detail)),
    ];
    evidence
        .extend(facts.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)));
}

/// Returns which column the time of the last activity came from.
fn source(session: &Session) -> Option<&'static str> {
    let columns = [
        (session.last_activity_at, "last_activity_at"),
        (session.updated_at, "updated_at"),
        (session.started_at, "started_at"),
    ];
    columns.into_iter().find_map(|(at, column)| at.map(|_| column))
}
