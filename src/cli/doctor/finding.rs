//! One thing that was found, good or bad.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// It works, and may not always.
    Warning,
    /// Something does not work, or would end engines.
    Problem,
}

impl Level {
    /// Returns its word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One sentence about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// How bad it is.
    pub(crate) level: Level,
    /// Which check says so.
    pub(crate) check: &'static str,
    /// What is so; where it is not good, what to do.
    pub(crate) message: String,
}

/// A check that tells its findings apart by their level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check(pub(crate) &'static str);

impl Check {
    /// Tells something that is as it should be.
    pub(crate) fn ok(self, message: impl Into<String>) -> Finding {
        Finding { level: Level::Ok, check: self.0, message: message.into() }
    }

    /// Tells something that works, and may not always.
    pub(crate) fn warning(self, message: impl Into<String>) -> Finding {
        Finding { level: Level::Warning, check: self.0, message: message.into() }
    }

    /// Tells something that does not work, or would end engines.
    pub(crate) fn problem(self, message: impl Into<String>) -> Finding {
        Finding { level: Level::Problem, check: self.0, message: message.into() }
    }
}

/// Writes a number with what it counts.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
