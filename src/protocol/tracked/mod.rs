//! Reading a runner's answer to `GET /coding/sessions`: the tracked set, or why it is none.
//!
//! Pure: from status, headers and bytes to a [`Reading`]. An empty list is a real answer and closes rows; so nothing
//! else may ever read as one. Whatever is not exactly what the protocol describes is [`Reading::Unrecognised`].

mod body;
mod element;

use std::collections::HashSet;

use serde::Deserialize;

use crate::protocol::tracked::body::{Body, Listed, Records};
use crate::protocol::untrusted::{Field, Fields, quoted};
use crate::protocol::{Ended, TrackedSession};
use crate::session::Id;

/// An HTTP answer, as far as its reading depends on it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Answer<'a> {
    /// The status code.
    pub status: u16,
    /// The `Content-Type` header.
    pub content_type: Option<&'a str>,
    /// The `Content-Encoding` header.
    pub content_encoding: Option<&'a str>,
    /// The `Age` header: for how many seconds a cache has held the answer.
    pub age: Option<&'a str>,
    /// The body, whole.
    pub body: &'a [u8],
}

/// What the answer must fit to be believed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expected {
    /// The random text that the question carried.
    pub ask: String,
    /// The runner that should answer; none accepts any.
    pub runner_id: Option<String>,
    /// The state folder it has shown; none accepts any.
    pub state_id: Option<String>,
    /// The highest epoch it has shown.
    pub epoch: Option<i64>,
    /// It has spoken the protocol before, so a bare answer is none.
    pub speaks_protocol: bool,
}

/// A tracked set that may be believed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrackedSet {
    /// The protocol version, if the runner said one; none is a foreign runner.
    pub protocol: Option<i64>,
    /// The identity it showed.
    pub runner_id: Option<String>,
    /// The state folder it runs on, if it said so: another one knows nothing of the engines of the first.
    pub state_id: Option<String>,
    /// The epoch it showed.
    pub epoch: Option<i64>,
    /// What a stop must copy to show how fresh its reason is; only of a runner that speaks the protocol.
    pub stamp: Option<String>,
    /// The engines that it holds. Ids may be listed twice. One without a generation may belong to any start.
    pub tracked: Vec<TrackedSession>,
    /// The engines that it remembers as gone; only of a runner that speaks the protocol.
    pub ended: Vec<Ended>,
}

/// How an answer reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// A tracked set; an empty one is a real answer.
    Tracked(TrackedSet),
    /// A sound answer of another runner, or of an older state of this one. A person decides.
    Unknown(String),
    /// Anything else: nothing may be concluded from it.
    Unrecognised(String),
}

/// Reads an answer to `GET /coding/sessions`.
///
/// It is a tracked set if, and only if, all of this holds: the status is 200 and no cache, encoding or content type other
/// than JSON stood in between; the body is one JSON object in UTF-8; `tracked` is there once and is a list of session
/// ids or of objects with a `session_id`; and where they are there, each once, `complete` and `ready` are true, `error`
/// and `next_page` are null, `ask` is the one asked, `runner_id` and `state_id` the ones expected and `epoch` not lower
/// than the highest seen. A runner that says `protocol`, or has ever said it, must send all of them but `state_id`, and a stamp. Versions above this
/// build's are read the same way: the protocol only grows.
///
/// Only an answer that is sound in every other respect is [`Reading::Unknown`] for its `runner_id`, `state_id` or `epoch`.
#[must_use]
pub fn read_tracked(answer: &Answer<'_>, expected: &Expected) -> Reading {
    match recognise(answer, expected) {
        Err(why) => Reading::Unrecognised(why.chars().take(LONGEST_WHY).collect()),
        Ok(set) => match another(&set, expected) {
            Some(why) => Reading::Unknown(why),
            None => Reading::Tracked(set),
        },
    }
}

/// Returns whether an answer that is no tracked set is one of the expected runner, in its newest state, saying that it is
/// not ready yet.
///
/// It is, if and only if the answer is an object that nothing stood in between, `ready` is there once and is false, and
/// everything that it says about where it comes from fits.
#[must_use]
pub fn says_not_ready(answer: &Answer<'_>, expected: &Expected) -> bool {
    let body = check_envelope(answer).and_then(|()| text(answer.body)).and_then(Body::parse);
    let Ok(Body { mut fields, .. }) = body else { return false };
    if fields.get("ready") != Some(&Field::Bool(false)) || check_origin(&fields, expected).is_err() {
        return false;
    }
    let epoch = fields.get("epoch").and_then(Field::as_int);
    let mut said = |name: &str| fields.take(name).and_then(Field::into_text);
    let (runner_id, state_id) = (said("runner_id"), said("state_id"));
    another(&TrackedSet { runner_id, state_id, epoch, ..TrackedSet::default() }, expected).is_none()
}

/// The most characters of a reason; parts of it come from the answer.
const LONGEST_WHY: usize = 240;

fn recognise(answer: &Answer<'_>, expected: &Expected) -> Result<TrackedSet, String> {
    check_envelope(answer)?;
    let text = text(answer.body)?;
    let Body { mut fields, tracked, ended } = Body::parse(text)?;
    check_claims(&fields, expected)?;
    let protocol = protocol(&fields, expected)?;
    let tracked = sessions(tracked)?;
    let ended = if protocol.is_some() { records(text, ended)? } else { Vec::new() };
    check_both(&tracked, &ended)?;
    let mut said = |name: &str| fields.take(name).and_then(Field::into_text);
    Ok(TrackedSet {
        protocol,
        runner_id: said("runner_id"),
        state_id: said("state_id"),
        stamp: said("stamp").filter(|_| protocol.is_some()),
        epoch: fields.get("epoch").and_then(Field::as_int),
        tracked,
        ended,
    })
}

/// Says why a sound answer is not one of the expected runner in its newest state.
fn another(set: &TrackedSet, expected: &Expected) -> Option<String> {
    if let (Some(shown), Some(known)) = (&set.runner_id, &expected.runner_id)
        && shown != known
    {
        return Some(format!("the runner that answers calls itself {}, not {known:?}", quoted(shown)));
    }
    if let (Some(shown), Some(known)) = (&set.state_id, &expected.state_id)
        && shown != known
    {
        return Some(
            "the runner's state folder was lost or replaced, so it may not know engines that still run: see to them, then \
             say `sexton runners reset ID`"
                .to_owned(),
        );
    }
    match (set.epoch, expected.epoch) {
        (Some(shown), Some(highest)) if shown < highest => Some(format!(
            "the runner is at epoch {shown} and has been at {highest}: its state folder was lost or restored"
        )),
        _ => None,
    }
}

fn check_envelope(answer: &Answer<'_>) -> Result<(), String> {
    if answer.status != 200 {
        return Err(format!("the answer has status {}, not 200", answer.status));
    }
    if let Some(age) = answer.age
        && age.trim().parse() != Ok(0_u64)
    {
        return Err(format!("the answer comes from a cache (Age: {})", quoted(age)));
    }
    match answer.content_encoding {
        Some(encoding) if !encoding.trim().eq_ignore_ascii_case("identity") => {
            Err(format!("the answer is encoded as {}, which was not asked for", quoted(encoding)))
        }
        _ => answer.content_type.map_or(Ok(()), check_content_type),
    }
}

/// Types under which plain servers send JSON that nobody told them the type of. A page of a proxy comes under none of them.
const JSON_TYPES: [&str; 4] = ["application/json", "text/json", "text/plain", "application/octet-stream"];

fn check_content_type(content_type: &str) -> Result<(), String> {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if JSON_TYPES.contains(&essence.as_str()) || essence.ends_with("+json") {
        return Ok(());
    }
    Err(format!("the answer is not JSON: its content type is {}", quoted(content_type)))
}

fn text(body: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the answer is not text in UTF-8")?;
    if text.starts_with('\u{feff}') {
        return Err("the answer begins with a byte order mark, which JSON does not allow".to_owned());
    }
    if text.trim().is_empty() {
        return Err("the answer has no body".to_owned());
    }
    Ok(text)
}

/// Checks what may be missing but must not be wrong.
fn check_claims(fields: &Fields, expected: &Expected) -> Result<(), String> {
    for name in ["ready", "complete"] {
        claim(fields, name, "true", |field| field.as_bool() == Some(true))?;
    }
    for name in ["error", "next_page"] {
        claim(fields, name, "null", |field| *field == Field::Null)?;
    }
    check_origin(fields, expected)
}

/// Checks what an answer says about where it comes from, and to which question.
fn check_origin(fields: &Fields, expected: &Expected) -> Result<(), String> {
    claim(fields, "ask", "the one asked", |field| *field == Field::Text(expected.ask.clone()))?;
    claim(fields, "runner_id", "a runner's name", |field| matches!(field, Field::Text(name) if !name.is_empty()))?;
    claim(fields, "state_id", "an id", |field| matches!(field, Field::Text(name) if Id::fits(name)))?;
    claim(fields, "epoch", "a whole number", |field| field.as_int().is_some_and(|epoch| epoch >= 0))?;
    claim(fields, "protocol", "a number from 1", |field| field.as_int().is_some_and(|version| version >= 1))?;
    claim(fields, "stamp", "there once", |field| *field != Field::Twice)
}

fn claim(fields: &Fields, name: &str, wanted: &str, holds: impl Fn(&Field) -> bool) -> Result<(), String> {
    match fields.get(name) {
        Some(field) if !holds(field) => Err(format!("{name:?} is {}", field.is_not(wanted))),
        _ => Ok(()),
    }
}

/// Returns the protocol version, after checking that a runner which speaks the protocol said all that it must.
fn protocol(fields: &Fields, expected: &Expected) -> Result<Option<i64>, String> {
    let Some(version) = fields.get("protocol").and_then(Field::as_int) else {
        if expected.speaks_protocol {
            return Err("the runner has spoken the protocol before, and this answer does not".to_owned());
        }
        return Ok(None);
    };
    for name in ["runner_id", "epoch", "stamp", "ask", "ready", "complete"] {
        if fields.get(name).is_none() {
            return Err(format!("{name:?} is missing, which a runner that says \"protocol\" must send"));
        }
    }
    claim(fields, "runner_id", "an id", |field| matches!(field, Field::Text(name) if Id::fits(name)))?;
    claim(
        fields,
        "stamp",
        "a text that says something",
        |field| matches!(field, Field::Text(stamp) if !stamp.is_empty()),
    )?;
    Ok(Some(version))
}

fn sessions(tracked: Option<Listed>) -> Result<Vec<TrackedSession>, String> {
    match tracked {
        None => Err("\"tracked\" is missing".to_owned()),
        Some(Listed::Sessions(sessions)) => Ok(sessions),
        Some(Listed::Spoilt { at, why }) => Err(format!("element {at} of \"tracked\" is no session: {why}")),
        Some(Listed::Odd(field)) => Err(format!("\"tracked\" is {}", field.is_not("a list"))),
    }
}

/// Reads the end records, each of which closes a row: an odd one spoils the whole answer.
fn records(text: &str, shape: Option<Records>) -> Result<Vec<Ended>, String> {
    #[derive(Deserialize)]
    struct Part {
        ended: Vec<Ended>,
    }
    match shape {
        None => return Ok(Vec::new()),
        Some(Records::Objects) => {}
        Some(Records::Spoilt { at, field }) => {
            return Err(format!("element {at} of \"ended\" is {}", field.is_not("a record")));
        }
        Some(Records::Odd(field)) => return Err(format!("\"ended\" is {}", field.is_not("a list"))),
    }
    let part: Part = serde_json::from_str(text).map_err(|error| format!("\"ended\" does not read: {error}"))?;
    match part.ended.iter().find(|record| record.generation < 1 || record.reason.trim().is_empty()) {
        Some(record) => Err(format!("the \"ended\" record of {} lacks a generation or a reason", record.session_id)),
        None => Ok(part.ended),
    }
}

/// Refuses an answer that says of the same start of a session that its engine is there and that it is gone.
fn check_both(tracked: &[TrackedSession], ended: &[Ended]) -> Result<(), String> {
    if ended.is_empty() {
        return Ok(());
    }
    let held: HashSet<(&Id, i64)> = tracked.iter().filter_map(|one| Some((&one.session_id, one.generation?))).collect();
    match ended.iter().find(|record| held.contains(&(&record.session_id, record.generation))) {
        Some(record) => Err(format!("session {} is both tracked and ended", record.session_id)),
        None => Ok(()),
    }
}
