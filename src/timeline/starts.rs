//! What the timeline says of later starts of a session: attached again, resumed, moved, found again.

use serde_json::json;

use crate::entry::{EntryKind, NewEntry};
use crate::protocol::{EndOutcome, Ended, ResumeCommand};
use crate::session::{Id, Session};
use crate::time::UtcMs;
use crate::timeline::phrase::{full_stop, how_it_left, join, resume};
use crate::timeline::{Actor, Grounds, entry, evidence, put_ended};

/// The reason under which a runner stops an engine so that its session can go on at another one.
pub const RELOCATED: &str = "relocated";

/// What became of the engine that a session leaves behind when it moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Freed {
    /// Its runner stopped it, on proof.
    Stopped(Box<Ended>),
    /// Its runner, ready, held none.
    NotHeld,
    /// It was not stopped, and why; it may well live.
    LeftAlone(String),
}

impl Freed {
    /// Returns how a person takes the conversation up by hand, where a runner said so.
    fn by_hand(&self) -> Option<&ResumeCommand> {
        match self {
            Self::Stopped(ended) => ended.resume.as_ref(),
            Self::NotHeld | Self::LeftAlone(_) => None,
        }
    }
}

/// Tells that the engine of an open row was gone and is started anew on the same runner. `read` is the row before that.
#[must_use]
pub fn attached_again(read: &Session, actor: &Actor, now: UtcMs) -> NewEntry {
    let message = format!(
        "Attached again: runner {} held no engine for it any more, so {} is started there anew {}.",
        read.runner_id,
        read.engine,
        with_what(read)
    );
    started(read, &read.runner_id, message, (actor, now))
}

/// Tells that an ended session is started again with its context. `read` is the row before that.
#[must_use]
pub fn resumed(read: &Session, actor: &Actor, now: UtcMs) -> NewEntry {
    let message = format!(
        "Resumed: it had ended ({}); {} is started again on runner {} {}.",
        read.end_reason.as_deref().unwrap_or("for an unknown reason"),
        read.engine,
        read.runner_id,
        with_what(read)
    );
    started(read, &read.runner_id, message, (actor, now))
}

/// Tells that a session moves to another runner, and what became of its engine. `read` is the row before that.
#[must_use]
pub fn relocated((read, to): (&Session, &Id), freed: &Freed, actor: &Actor, now: UtcMs) -> NewEntry {
    let from = &read.runner_id;
    let engine = match freed {
        Freed::Stopped(_) => format!("its engine on {from} was stopped first"),
        Freed::NotHeld => format!("{from} held no engine for it any more"),
        Freed::LeftAlone(why) => format!(
            "its engine on {from} was NOT stopped ({why}), and until it is, two engines may write into one conversation"
        ),
    };
    let message = format!(
        "Moved from runner {from} to runner {to}: {engine}; {} is started there {}.",
        read.engine,
        with_what(read)
    );
    let mut told = started(read, to, message, (actor, now));
    told.kind = EntryKind::Relocated;
    let forced = matches!(freed, Freed::LeftAlone(_));
    for (key, value) in
        [("from", json!(from)), ("to", json!(to)), ("forced", json!(forced)), ("resume", json!(freed.by_hand()))]
    {
        if !value.is_null() {
            told.evidence[key] = value;
        }
    }
    told
}

/// Tells that a session goes back to the runner it came from, since its engine did not start on `read`'s.
#[must_use]
pub fn moved_back((read, to): (&Session, &Id), why: &str, actor: &Actor, now: UtcMs) -> NewEntry {
    let from = &read.runner_id;
    let message = format!(
        "Moved back from runner {from} to runner {to}: {} did not start on {from}: {} It is started again on {to} {}.",
        read.engine,
        full_stop(why),
        with_what(read)
    );
    let mut told = started(read, to, message, (actor, now));
    told.kind = EntryKind::Relocated;
    told.evidence["from"] = json!(from);
    told.evidence["to"] = json!(to);
    told.evidence["detail"] = json!(why);
    told
}

/// Tells that the engine which a session left behind on `read`'s runner is gone.
#[must_use]
pub fn stopped_to_move((read, to): (&Session, &Id), ended: &Ended, actor: &Actor, now: UtcMs) -> NewEntry {
    let first = format!("Stopped on runner {}, to go on on runner {to}.", read.runner_id);
    let message = join([Some(first), how_it_left(ended), ended.resume.as_ref().map(resume)]);
    let mut map = evidence(Grounds::of(read), actor);
    put_ended(&mut map, EndOutcome::Stopped, ended);
    NewEntry {
        kind: EntryKind::Stopped,
        generation: ended.generation,
        reason: Some(ended.reason.clone()),
        engine_gone: true,
        ..entry(read, message, map, actor, now)
    }
}

/// Tells that a row is opened again whose machine was gone, since its owner asked for it and its engine is still there.
#[must_use]
pub fn returned(read: &Session, actor: &Actor, now: UtcMs) -> NewEntry {
    let message = format!(
        "Reopened: it had been closed as {}, but runner {} is back and still holds its engine, and {} asked for it.",
        read.end_reason.as_deref().unwrap_or("unknown"),
        read.runner_id,
        actor.name
    );
    let map = evidence(Grounds::of(read), actor);
    NewEntry { kind: EntryKind::Reopened, ..entry(read, message, map, actor, now) }
}

fn started(read: &Session, runner: &Id, message: String, (actor, now): (&Actor, UtcMs)) -> NewEntry {
    let mut map = evidence(Grounds::of(read), actor);
    map.insert("runner_id".into(), json!(runner));
    map.insert("generation".into(), json!(read.generation + 1));
    NewEntry { kind: EntryKind::Started, ..entry(read, message, map, actor, now) }
}

fn with_what(read: &Session) -> &'static str {
    if read.engine_session_id.is_some() { "with its conversation" } else { "with a fresh conversation" }
}
