//! One binary with all tests that run Sexton from outside its own modules.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod runner;
mod support;
