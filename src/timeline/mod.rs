//! From outcome to sentence, pure: what a timeline entry says to a person, and the evidence under it.

mod ends;
mod phrase;
mod refusals;
mod runs;
mod starts;

use serde_json::{Map, Value, json};

pub use ends::{closed_without_stop, engine_gone, start_failed, stray_stopped};
pub use phrase::size;
pub use refusals::{in_the_way, refusal, refused, reopened};
pub use runs::{run_finished, run_started};
pub use starts::{Freed, RELOCATED, attached_again, moved_back, relocated, resumed, returned, stopped_to_move};

use crate::entry::{EntryKind, NewEntry};
use crate::policy::Decision;
use crate::protocol::{EndOutcome, Ended};
use crate::session::{Id, Run, Session};
use crate::time::{Ms, UtcMs, spoken};
use crate::timeline::phrase::silence;
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
        silence(session, grounds.runner_idle_ms, now),
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
