//! A place in what a session's engine wrote, named so that it fits no other engine's output.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// The end of a line in an engine's output, written `START-OFFSET`. A later start goes behind an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// The generation under which the engine was launched. It may be known under a higher one by now.
    pub start: i64,
    /// How many bytes of its output come before this place.
    pub offset: u64,
}

impl Cursor {
    /// Returns another place in the output of the same start.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset, ..self }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.offset)
    }
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (start, offset) = text.split_once('-')?;
            Some(Self { start: start.parse().ok()?, offset: offset.parse().ok()? })
        };
        // One place has one spelling: no sign and no zero before it.
        read().filter(|cursor| cursor.to_string() == text).ok_or_else(|| {
            let shown: String = text.chars().take(64).collect();
            format!("{shown:?} is no cursor: only ids of events are, such as \"3-1042\"")
        })
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl PartialSchema for Cursor {
    fn schema() -> RefOr<Schema> {
        let description = "A place in an engine's output: the id of an event that told of it";
        let pattern = "^[0-9]+-[0-9]+$";
        ObjectBuilder::new().schema_type(Type::String).description(Some(description)).pattern(Some(pattern)).into()
    }
}

impl ToSchema for Cursor {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        for cursor in [(1, 0), (3, 1_042), (i64::MAX, u64::MAX)].map(|(start, offset)| Cursor { start, offset }) {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
            let json = serde_json::to_string(&cursor).unwrap();
            assert_eq!((&*json, serde_json::from_str(&json).unwrap()), (&*format!("\"{cursor}\""), cursor));
        }
    }

    #[test]
    fn a_bare_number_is_none_and_neither_is_another_spelling() {
        let nonsense = [
            "",
            "0",
            "1042",
            "-",
            "3-",
            "-3",
            "-3-4",
            "3--4",
            "3-4-5",
            "+3-4",
            "3-+4",
            "03-4",
            "3-04",
            " 3-4",
            "3-4 ",
            "3-x",
            "3-1.5",
            "9223372036854775808-0",
            "0-18446744073709551616",
        ];
        for text in nonsense {
            let why = text.parse::<Cursor>().unwrap_err();
            assert!(why.contains("is no cursor: only ids of events are"), "{why}");
        }
        assert!("x".repeat(10_000).parse::<Cursor>().unwrap_err().len() < 200);
        assert!(serde_json::from_str::<Cursor>("1042").is_err());
    }

    #[test]
    fn a_later_start_goes_behind_whatever_an_earlier_one_wrote() {
        let [early, late] = [(2, 9_000), (3, 0)].map(|(start, offset)| Cursor { start, offset });
        assert!(early < late && late < late.at(1) && early.at(8_999) < early);
    }
}
