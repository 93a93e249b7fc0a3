//! One pattern of a rule, as it is written and as it is matched.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A pattern such as `/src/**` or `claude*`, compiled when it is read. `*` and `?` stay within one part of a path, `**`
/// crosses parts.
#[derive(Clone)]
pub struct Pattern(GlobMatcher);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Says in one sentence what is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        let glob = GlobBuilder::new(text).literal_separator(true).empty_alternates(true).build();
        glob.map(|glob| Self(glob.compile_matcher()))
            .map_err(|error| format!("\"{text}\" is no pattern: {}", error.kind()))
    }

    /// Returns it as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.glob().glob()
    }

    pub(super) fn fits(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.as_str()).finish()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
