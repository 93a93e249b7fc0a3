//! Attaching with real processes: runner, worker and command line are killed and started again in between.

mod client;
mod command;
mod engine_id;
mod hundred;
mod slow;
mod station;
