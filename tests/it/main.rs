//! The integration tests: one binary, one file per subject.

#![expect(clippy::unwrap_used, reason = "tests")]

mod cli;
mod tracked_fixtures;
mod tracked_fuzz;
