//! Sexton stops coding-agent sessions that nobody uses any more, and says why.

pub mod clock;
pub mod config;
pub mod policy;
pub mod protocol;
pub mod schedule;
pub mod session;
pub mod telemetry;
pub mod time;
pub mod verdict;
mod words;
