//! What several tests need.

pub mod processes;
pub mod runner;
