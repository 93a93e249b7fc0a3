//! Sexton stops coding-agent sessions that nobody uses any more, and says why.
//!
//! # The map, in reading order
//!
//! What things are, and the words for them: [`session`] and [`verdict`], [`entry`] for the timeline, [`time`]; and what an
//! [`import`] from another system may say.
//!
//! What decides: [`policy`], pure. [`sweep`] is one pass: it reads rows from the [`store`], asks runners through
//! [`runner_client`] in the terms of [`protocol`], takes the answers for what [`connectivity`] says that they mean, lets
//! the policy decide, acts, and tells it in [`timeline`] entries and a [`report`]; [`webhook`] carries entries to whoever
//! waits for them.
//!
//! What people and hosts do meanwhile: [`verbs`], and [`activity`], which records that a session was used; [`attach`]
//! follows what its engine says.
//!
//! What makes a process of it: [`tools`] is what all of these work with; [`schedule`] rings, [`worker`] sweeps and keeps
//! the books, [`api`] answers with [`token`]s through a port of the [`network`], [`metrics`] counts; [`cli`] is the command
//! line over everything, with [`config`], [`cron`] and [`telemetry`].
//!
//! The other side of the wire: [`runner`], the daemon that owns the engines of one machine.
//!
//! Only [`clock`] reads a clock; only `memory` holds unsafe code. Dependencies point down only; `tests/it/architecture.rs`
//! holds the table.

pub mod entry;
pub mod import;
pub mod report;
pub mod session;
pub mod time;
pub mod verdict;
mod words;

pub mod policy;
pub mod protocol;
pub mod timeline;

pub mod clock;
mod memory;
pub mod network;
pub mod runner_client;
pub mod store;
pub mod webhook;

pub mod activity;
pub mod attach;
pub mod connectivity;
pub mod sweep;
pub mod tools;
pub mod verbs;

pub mod api;
pub mod cli;
pub mod config;
pub mod cron;
pub mod metrics;
pub mod schedule;
pub mod telemetry;
pub mod token;
pub mod worker;

pub mod runner;
