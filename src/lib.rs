//! Sexton stops coding-agent sessions that nobody uses any more, and says why.

pub mod clock;
pub mod entry;
pub mod import;
pub mod policy;
pub mod protocol;
pub mod session;
pub mod store;
pub mod time;
pub mod verdict;
mod words;
