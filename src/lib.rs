//! Sexton stops coding-agent sessions that nobody uses any more, and says why.

pub mod activity;
pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod cron;
pub mod entry;
pub mod import;
pub mod metrics;
pub mod policy;
pub mod protocol;
pub mod runner;
pub mod runner_client;
pub mod schedule;
pub mod session;
pub mod store;
pub mod sweep;
pub mod telemetry;
pub mod time;
pub mod timeline;
pub mod token;
pub mod tools;
pub mod verbs;
pub mod verdict;
mod words;
pub mod worker;
