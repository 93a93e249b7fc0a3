//! Reading one element of a tracked set: a bare session id, or an object with a `session_id`.
//!
//! What a decision rests on is read strictly: an id that is none, or a generation that is none, spoils the element. What
//! the engine does is read as "unknown" where it is of an odd type, which keeps the session; what only informs is dropped.

use serde::de::{Deserialize, Deserializer, Error, MapAccess};

use crate::protocol::untrusted::{Field, Fields, Piece, Read};
use crate::protocol::{EngineState, Told, TrackedSession};
use crate::session::Id;
use crate::time::Ms;

/// The keys of an element that mean something here; all others are somebody else's.
const KEYS: &[&str] = &[
    "session_id",
    "generation",
    "start",
    "engine",
    "generating",
    "background_tasks",
    "awaiting_input",
    "stalled",
    "next_wake_in_ms",
    "idle_ms",
    "turn_silent_ms",
    "background_silent_ms",
    "awaiting_ms",
    "pid",
    "rss_bytes",
    "cpu_ms",
    "attached",
    "containment",
    "engine_session_id",
];

/// An element, or what is wrong with it.
pub(super) struct Element(pub(super) Result<TrackedSession, String>);

impl<'de> Piece<'de> for Element {
    fn scalar(value: Field) -> Self {
        let what = value.describe();
        match value.into_text() {
            Some(text) => Self(text.parse().map(TrackedSession::bare)),
            None => Self(Err(format!("it is {what}, not a session"))),
        }
    }

    fn object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        let mut fields = Fields::default();
        while let Some(key) = object.next_key::<String>()? {
            let Read(value) = object.next_value::<Read<Field>>()?;
            if let Some(known) = KEYS.iter().find(|known| **known == key) {
                fields.put(known, value);
            }
        }
        Ok(Self(session(fields)))
    }
}

impl<'de> Deserialize<'de> for TrackedSession {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Read(Element(read)) = Read::<Element>::deserialize(deserializer)?;
        read.map_err(D::Error::custom)
    }
}

fn session(mut fields: Fields) -> Result<TrackedSession, String> {
    let session_id = id(fields.take("session_id"))?;
    let generation = generation(fields.take("generation"))?;
    let state = state(&fields);
    let mut text = |name: &str| fields.take(name).and_then(Field::into_text);
    let (engine, containment, engine_session_id) = (text("engine"), text("containment"), text("engine_session_id"));
    let int = |name: &str| fields.get(name).and_then(Field::as_int);
    Ok(TrackedSession {
        session_id,
        generation,
        start: int("start"),
        engine,
        state,
        pid: int("pid"),
        rss_bytes: int("rss_bytes"),
        cpu_ms: int("cpu_ms"),
        attached: int("attached"),
        containment,
        engine_session_id,
    })
}

fn id(field: Option<Field>) -> Result<Id, String> {
    let field = field.ok_or("it has no session_id")?;
    let what = field.describe();
    field.into_text().ok_or_else(|| format!("its session_id is {what}"))?.parse()
}

fn generation(field: Option<Field>) -> Result<Option<i64>, String> {
    match field {
        None => Ok(None),
        Some(Field::Int(generation)) if generation >= 1 => Ok(Some(generation)),
        Some(odd) => Err(format!("its generation is {}", odd.is_not("a number from 1"))),
    }
}

fn state(fields: &Fields) -> EngineState {
    let mut unclear = false;
    let mut age = |name: &str| match fields.get(name) {
        None | Some(Field::Null) => None,
        Some(field) => {
            let value = field.as_int();
            unclear |= value.is_none();
            value
        }
    };
    EngineState {
        generating: told(fields.get("generating"), Field::as_bool),
        background_tasks: told(fields.get("background_tasks"), |field| u32::try_from(field.as_int()?).ok()),
        awaiting_input: told(fields.get("awaiting_input"), Field::as_bool),
        stalled: told(fields.get("stalled"), Field::as_bool),
        idle_ms: told(fields.get("idle_ms"), silence),
        next_wake_in_ms: age("next_wake_in_ms"),
        turn_silent_ms: age("turn_silent_ms"),
        background_silent_ms: age("background_silent_ms"),
        awaiting_ms: age("awaiting_ms"),
        unclear,
    }
}

/// A negative silence is none: the clock that measured it cannot be relied on.
fn silence(field: &Field) -> Option<Ms> {
    field.as_int().filter(|ms| *ms >= 0)
}

fn told<T>(field: Option<&Field>, read: impl Fn(&Field) -> Option<T>) -> Told<T> {
    match field {
        None => Told::Silent,
        Some(field) => read(field).map_or(Told::Unknown, Told::Is),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<TrackedSession, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn a_bare_id_and_an_object_stand_for_an_engine() {
        assert_eq!(read(r#""a-1""#).unwrap(), TrackedSession::bare("a-1".parse().unwrap()));
        let full = read(r#"{"session_id":"a","generation":3,"generating":false,"idle_ms":7,"pid":4,"x":[]}"#).unwrap();
        assert_eq!((full.generation, full.pid), (Some(3), Some(4)));
        assert_eq!((full.state.generating, full.state.idle_ms), (Told::Is(false), Told::Is(7)));
        assert_eq!(full.state.background_tasks, Told::Silent);
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut session =
            read(r#"{"session_id":"a","generation":3,"start":2,"engine":"claude","attached":2}"#).unwrap();
        session.state.generating = Told::Unknown;
        session.state.next_wake_in_ms = Some(-4);
        session.state.awaiting_ms = Some(9);
        let text = serde_json::to_string(&session).unwrap();
        assert_eq!(read(&text).unwrap(), session, "{text}");
    }

    #[test]
    fn an_odd_state_is_unknown_and_not_silence() {
        for odd in ["null", "\"yes\"", "1.5", "[]", "{}", "99999999999999999999"] {
            let json = format!(
                r#"{{"session_id":"a","generating":{odd},"background_tasks":{odd},"awaiting_input":{odd},"idle_ms":{odd}}}"#
            );
            let state = read(&json).unwrap().state;
            assert_eq!(state.generating, Told::Unknown, "{odd}");
            assert_eq!(state.background_tasks, Told::Unknown, "{odd}");
            assert_eq!(state.awaiting_input, Told::Unknown, "{odd}");
            assert_eq!(state.idle_ms, Told::Unknown, "{odd}");
        }
        assert_eq!(read(r#"{"session_id":"a","idle_ms":-1}"#).unwrap().state.idle_ms, Told::Unknown);
        assert_eq!(read(r#"{"session_id":"a","background_tasks":-1}"#).unwrap().state.background_tasks, Told::Unknown);
        let twice = read(r#"{"session_id":"a","generating":true,"generating":false}"#).unwrap();
        assert_eq!(twice.state.generating, Told::Unknown);
    }

    #[test]
    fn an_odd_age_makes_the_state_unclear() {
        for key in ["next_wake_in_ms", "turn_silent_ms", "background_silent_ms", "awaiting_ms"] {
            for (value, unclear) in [("null", false), ("5", false), ("\"5\"", true), ("5.5", true), ("true", true)] {
                let state = read(&format!(r#"{{"session_id":"a","{key}":{value}}}"#)).unwrap().state;
                assert_eq!(state.unclear, unclear, "{key} {value}");
            }
        }
    }

    #[test]
    fn a_spoilt_id_or_generation_spoils_the_element() {
        for bad in [
            "null",
            "7",
            "[]",
            "{}",
            r#""a b""#,
            r#"{"session_id":7}"#,
            r#"{"session_id":"a","session_id":"a"}"#,
            r#"{"session_id":"a","generation":0}"#,
            r#"{"session_id":"a","generation":"1"}"#,
            r#"{"session_id":"a","generation":1.0}"#,
            r#"{"session_id":"a","generation":null}"#,
            r#"{"session_id":"a","generation":1,"generation":1}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
