//! The runner, from outside: real child processes, its HTTP routes, its state folder.

mod conditions;
mod cursors;
mod events;
mod faults;
mod heartbeats;
mod idle_clock;
mod kills;
mod lives;
mod losses;
mod messages;
mod output;
mod overnight;
mod races;
mod reasons;
mod recovery;
mod refusals;
mod restarts;
mod starts;
mod streaming;
mod trees;
mod usage;
