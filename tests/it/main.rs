//! The integration tests: one binary, one file per subject.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod api;
mod architecture;
mod attach;
mod cli;
mod engines;
mod ensure;
mod network;
mod packaging;
mod runner;
mod runner_client;
mod shim;
mod store;
mod support;
mod sweep;
mod tracked_fixtures;
mod tracked_fuzz;
mod verbs;
mod worker;
