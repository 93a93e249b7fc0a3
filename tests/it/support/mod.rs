//! What several tests need.

pub(crate) mod processes;
pub(crate) mod runner;
