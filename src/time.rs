//! Points in time and durations as Sexton stores and compares them: whole milliseconds.
//!
//! The store and import files hold integers; JSON for people and programs holds RFC 3339; configuration holds
//! durations such as `6h`. Everything here is pure: reading the clock is `clock.rs`'s business.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// A duration in milliseconds.
pub type Ms = i64;

/// One second, in milliseconds.
pub const SECOND: Ms = 1_000;
/// One minute, in milliseconds.
pub const MINUTE: Ms = 60 * SECOND;
/// One hour, in milliseconds.
pub const HOUR: Ms = 60 * MINUTE;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UtcMs(pub i64);

impl UtcMs {
    /// Returns how long before `self` the point `earlier` lies; negative when it lies after.
    #[must_use]
    pub fn since(self, earlier: Self) -> Ms {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the point `ms` later.
    #[must_use]
    pub fn plus(self, ms: Ms) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns the point `ms` earlier.
    #[must_use]
    pub fn minus(self, ms: Ms) -> Self {
        Self(self.0.saturating_sub(ms))
    }
}

impl fmt::Display for UtcMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl FromStr for UtcMs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<jiff::Timestamp>()
            .map(|timestamp| Self(timestamp.as_millisecond()))
            .map_err(|_| format!("\"{text}\" is not a time such as 2026-01-31T09:14:00.000Z"))
    }
}

impl Serialize for UtcMs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UtcMs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl PartialSchema for UtcMs {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        let description = "A point in time, RFC 3339 with milliseconds";
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).description(Some(description)).into()
    }
}

impl ToSchema for UtcMs {
    fn name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }
}

/// Parses a duration as people write it: `6h`, `1h30m`, `90s`, `250ms`, `1d 6h`.
///
/// # Errors
/// Says in one sentence what a duration looks like when `text` is none, or is negative.
pub fn parse_duration(text: &str) -> Result<Ms, String> {
    let refused = || format!("\"{text}\" is not a duration such as \"6h\", \"1h30m\" or \"250ms\"");
    if text.trim() == "0" {
        return Ok(0);
    }
    let span: jiff::Span = text.trim().parse().map_err(|_| refused())?;
    let duration = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| refused())?;
    match i64::try_from(duration.as_millis()) {
        Ok(ms) if ms >= 0 => Ok(ms),
        _ => Err(refused()),
    }
}

/// A duration in configuration, kept in milliseconds and written as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span(pub Ms);

impl Span {
    /// Returns it as the standard library's type, for time limits of I/O.
    #[must_use]
    pub fn as_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(u64::try_from(self.0).unwrap_or(0))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Span).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&compact(self.0))
    }
}

/// Writes a duration so that [`parse_duration`] reads it back: `6h`, `1m 30s`, `250ms`.
#[must_use]
pub fn compact(ms: Ms) -> String {
    write_units(ms, &[("d", 24 * HOUR), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1)], usize::MAX, "")
}

/// Writes a duration for a sentence, its two largest units: `6 h 3 min`, `1.2 s`, `40 ms`.
#[must_use]
pub fn spoken(ms: Ms) -> String {
    if (SECOND..10 * SECOND).contains(&ms) && ms % SECOND != 0 {
        return format!("{}.{} s", ms / SECOND, ms % SECOND / 100);
    }
    let whole = if ms >= SECOND { ms - ms % SECOND } else { ms };
    write_units(whole, &[("d", 24 * HOUR), ("h", HOUR), ("min", MINUTE), ("s", SECOND), ("ms", 1)], 2, " ")
}

fn write_units(ms: Ms, units: &[(&str, Ms)], most: usize, gap: &str) -> String {
    let mut left = ms;
    let mut parts = Vec::new();
    for (name, size) in units {
        let count = left / size;
        if count > 0 && parts.len() < most {
            parts.push(format!("{count}{gap}{name}"));
            left %= size;
        }
    }
    if parts.is_empty() { format!("0{gap}s") } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_write_themselves_back() {
        for (text, ms) in [("6h", 6 * HOUR), ("1h 30m", 90 * MINUTE), ("250ms", 250), ("1d 6h", 30 * HOUR), ("0s", 0)] {
            assert_eq!(parse_duration(text), Ok(ms), "{text}");
            assert_eq!(parse_duration(&compact(ms)), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_in_one_sentence() {
        for text in ["", "6 parsecs", "-1h", "1 month", "six"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains("is not a duration such as"), "{error}");
        }
    }

    #[test]
    fn spoken_durations_keep_two_units() {
        assert_eq!(spoken(6 * HOUR + 3 * MINUTE + 7 * SECOND), "6 h 3 min");
        assert_eq!(spoken(1_240), "1.2 s");
        assert_eq!(spoken(40), "40 ms");
        assert_eq!(spoken(30 * HOUR), "1 d 6 h");
    }

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        assert_eq!(UtcMs(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!("1970-01-01T00:00:01.5Z".parse(), Ok(UtcMs(1_500)));
    }
}
