//! Sexton stops coding-agent sessions that nobody uses any more, and says why.

pub mod clock;
pub mod policy;
pub mod protocol;
pub mod runner_client;
pub mod session;
pub mod time;
pub mod verdict;
mod words;
