//! The shape of an answer to `GET /coding/sessions`: one object, its known keys each seen as often as it was sent.
//!
//! What the values must be is not decided here.

use serde::de::{MapAccess, SeqAccess};

use crate::protocol::TrackedSession;
use crate::protocol::tracked::element::Element;
use crate::protocol::untrusted::{Field, Fields, Piece, Read};

/// The keys that stand beside the two lists and mean something.
const KEYS: &[&str] =
    &["complete", "ready", "error", "next_page", "ask", "runner_id", "state_id", "epoch", "protocol", "stamp"];

/// The answer's object, every known key read once.
#[derive(Default)]
pub(super) struct Body {
    pub(super) fields: Fields,
    pub(super) tracked: Option<Listed>,
    pub(super) ended: Option<Records>,
}

impl Body {
    /// Reads an answer's text, which must be one JSON object and nothing else.
    ///
    /// # Errors
    /// One sentence about what it is instead.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match serde_json::from_str::<Read<Result<Self, String>>>(text) {
            Ok(Read(body)) => body,
            Err(error) if error.is_eof() => Err("the answer is cut off: its JSON does not end".to_owned()),
            Err(error) => Err(format!("the answer is not JSON: {error}")),
        }
    }
}

impl<'de> Piece<'de> for Result<Body, String> {
    fn scalar(value: Field) -> Self {
        Err(format!("the answer is {}, not an object", value.describe()))
    }

    fn object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        let mut body = Body::default();
        while let Some(key) = object.next_key::<String>()? {
            match key.as_str() {
                "tracked" => {
                    let Read(listed) = object.next_value()?;
                    body.tracked = Some(if body.tracked.is_some() { Listed::Odd(Field::Twice) } else { listed });
                }
                "ended" => {
                    let Read(records) = object.next_value()?;
                    body.ended = Some(if body.ended.is_some() { Records::Odd(Field::Twice) } else { records });
                }
                other => {
                    let Read(value) = object.next_value::<Read<Field>>()?;
                    if let Some(known) = KEYS.iter().find(|known| **known == other) {
                        body.fields.put(known, value);
                    }
                }
            }
        }
        Ok(Ok(body))
    }
}

/// What stood under `tracked`.
pub(super) enum Listed {
    Sessions(Vec<TrackedSession>),
    /// An element, counted from 1, that is no session.
    Spoilt {
        at: usize,
        why: String,
    },
    Odd(Field),
}

impl<'de> Piece<'de> for Listed {
    fn scalar(value: Field) -> Self {
        Self::Odd(value)
    }

    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut sessions = Vec::new();
        while let Some(Read(Element(element))) = list.next_element()? {
            match element {
                Ok(session) => sessions.push(session),
                Err(why) => {
                    while list.next_element::<Read<Field>>()?.is_some() {}
                    return Ok(Self::Spoilt { at: sessions.len() + 1, why });
                }
            }
        }
        Ok(Self::Sessions(sessions))
    }
}

/// What stood under `ended`, before its records are read.
pub(super) enum Records {
    Objects,
    /// An element, counted from 1, that is no object.
    Spoilt {
        at: usize,
        field: Field,
    },
    Odd(Field),
}

impl<'de> Piece<'de> for Records {
    fn scalar(value: Field) -> Self {
        Self::Odd(value)
    }

    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut read = Self::Objects;
        let mut at = 0;
        while let Some(Read(field)) = list.next_element::<Read<Field>>()? {
            at += 1;
            if field != Field::Object && matches!(read, Self::Objects) {
                read = Self::Spoilt { at, field };
            }
        }
        Ok(read)
    }
}
