//! Sexton stops coding-agent sessions that nobody uses any more, and says why.

pub mod clock;
pub mod config;
pub mod entry;
pub mod metrics;
pub mod policy;
pub mod protocol;
pub mod session;
pub mod sweep;
pub mod time;
pub mod timeline;
pub mod verdict;
mod words;
