//! What a foreign runner's answer says beside its status: one that someone else wrote and that never said `protocol`.
//!
//! Its status is believed, unless the body contradicts it or comes from something that is no runner at all.

use serde::de::MapAccess;

use crate::protocol::untrusted::{Field, Fields, Piece, Read};
use crate::runner_client::exchange::Reply;

/// The keys whose values can contradict a status, or show that a runner speaks the protocol after all.
const KEYS: &[&str] =
    &["protocol", "session_id", "generation", "outcome", "reason", "error", "ok", "success", "stopped"];

/// The known part of a body; empty for one that is not a JSON object.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    fields: Fields,
    /// The body is JSON, and neither an object nor a plain value such as `true`.
    odd: bool,
}

impl<'de> Piece<'de> for Remarks {
    fn scalar(value: Field) -> Self {
        Self { fields: Fields::default(), odd: matches!(value, Field::Bool(false) | Field::List) }
    }

    fn object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        let mut remarks = Self::default();
        while let Some(key) = object.next_key::<String>()? {
            let Read(value) = object.next_value::<Read<Field>>()?;
            if let Some(known) = KEYS.iter().find(|known| **known == key) {
                remarks.fields.put(known, value);
            }
        }
        Ok(remarks)
    }
}

impl Remarks {
    /// Reads what the body says; nothing, where it is not JSON.
    pub(super) fn of(reply: &Reply) -> Self {
        serde_json::from_slice::<Read<Self>>(&reply.body).map(|Read(remarks)| remarks).unwrap_or_default()
    }

    /// Returns whether the body says `protocol`, so that its runner must be held to it.
    pub(super) fn say_protocol(&self) -> bool {
        self.fields.get("protocol").is_some()
    }

    /// Takes the outcome, if the body says one as a text.
    pub(super) fn outcome(&mut self) -> Option<String> {
        self.fields.take("outcome").and_then(Field::into_text)
    }

    /// Takes the reason, if the body says one as a text.
    pub(super) fn reason(&mut self) -> Option<String> {
        self.fields.take("reason").and_then(Field::into_text).filter(|reason| !reason.trim().is_empty())
    }

    /// Says how the body contradicts a status that means success for this session and generation.
    pub(super) fn contradiction(&self, reply: &Reply, session_id: &str, generation: i64) -> Option<String> {
        if is_page(reply) {
            return Some("the answer is a web page, not a runner's".to_owned());
        }
        if self.odd {
            return Some("the answer's body does not say that it was done".to_owned());
        }
        let wanted = [
            ("error", Field::Null),
            ("ok", Field::Bool(true)),
            ("success", Field::Bool(true)),
            ("stopped", Field::Bool(true)),
            ("session_id", Field::Text(session_id.to_owned())),
            ("generation", Field::Int(generation)),
        ];
        wanted.iter().find_map(|(name, wanted)| {
            let said = self.fields.get(name).filter(|said| *said != wanted)?;
            Some(format!("the answer's {name:?} is {}", said.is_not(&wanted.describe())))
        })
    }
}

/// A sign-in page or a proxy's notice, which come with any status.
pub(super) fn is_page(reply: &Reply) -> bool {
    let typed = reply.content_type.as_ref().is_some_and(|kind| kind.to_ascii_lowercase().contains("html"));
    typed || reply.body.trim_ascii_start().starts_with(b"<")
}
