//! Reading JSON that nobody vouches for: every key is seen, also one that is sent twice, and nothing nests without end.
//!
//! `serde_json` on its own keeps the last of two equal keys and skips unknown values at any depth. Both would let an
//! answer be believed that says two things at once.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A value as far as a decision may rest on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Field {
    Null,
    Bool(bool),
    /// A whole number that fits.
    Int(i64),
    /// Any other number.
    Number,
    Text(String),
    List,
    Object,
    /// Its key was sent more than once, so it says nothing.
    Twice,
}

/// Quotes foreign text for a sentence: short, and without control characters.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(64).collect::<String>())
}

impl Field {
    /// Says what it is, to stand behind "is".
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => format!("the number {value}"),
            Self::Number => "a number that is not whole or too large".to_owned(),
            Self::Text(text) => format!("the text {}", quoted(text)),
            Self::List => "a list".to_owned(),
            Self::Object => "an object".to_owned(),
            Self::Twice => "there twice".to_owned(),
        }
    }

    /// Says that it is not what it should be.
    pub(crate) fn is_not(&self, wanted: &str) -> String {
        if *self == Self::Twice { self.describe() } else { format!("{}, not {wanted}", self.describe()) }
    }

    /// Returns the text, if it is one.
    pub(crate) fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Number | Self::List | Self::Object | Self::Twice => None,
        }
    }

    /// Returns the whole number, if it is one.
    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Null | Self::Bool(_) | Self::Number | Self::Text(_) | Self::List | Self::Object | Self::Twice => None,
        }
    }

    /// Returns the truth value, if it is one.
    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Null | Self::Int(_) | Self::Number | Self::Text(_) | Self::List | Self::Object | Self::Twice => None,
        }
    }
}

/// The known keys of one object and what they said.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(&'static str, Field)>);

impl Fields {
    /// Notes a value; the second one under the same key makes it [`Field::Twice`].
    pub(crate) fn put(&mut self, name: &'static str, value: Field) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, seen)) => *seen = Field::Twice,
            None => self.0.push((name, value)),
        }
    }

    /// Returns what stood under `name`, if the key was sent.
    pub(crate) fn get(&self, name: &str) -> Option<&Field> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Takes what stood under `name`, if the key was sent.
    pub(crate) fn take(&mut self, name: &str) -> Option<Field> {
        let at = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

/// Something that can be read from any JSON value.
pub(crate) trait Piece<'de>: Sized {
    /// Takes a value that is neither list nor object, or one of those that was read over.
    fn scalar(value: Field) -> Self;

    /// Takes a list; reads over it unless told otherwise.
    fn list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Read<Field>>()?.is_some() {}
        Ok(Self::scalar(Field::List))
    }

    /// Takes an object; reads over it unless told otherwise.
    fn object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<String, Read<Field>>()?.is_some() {}
        Ok(Self::scalar(Field::Object))
    }
}

impl Piece<'_> for Field {
    fn scalar(value: Field) -> Self {
        value
    }
}

/// Brings a [`Piece`] to serde. Going through `deserialize_any` at every level keeps the parser's cap on nesting.
pub(crate) struct Read<T>(pub(crate) T);

impl<'de, T: Piece<'de>> Deserialize<'de> for Read<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PieceVisitor(PhantomData))
    }
}

struct PieceVisitor<T>(PhantomData<T>);

impl<'de, T: Piece<'de>> Visitor<'de> for PieceVisitor<T> {
    type Value = Read<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Read(T::scalar(Field::Null)))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Read(T::scalar(Field::Bool(value))))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Read(T::scalar(Field::Int(value))))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Read(T::scalar(i64::try_from(value).map_or(Field::Number, Field::Int))))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Read(T::scalar(Field::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Read(T::scalar(Field::Text(value.to_owned()))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        T::list(list).map(Read)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        T::object(object).map(Read)
    }
}
