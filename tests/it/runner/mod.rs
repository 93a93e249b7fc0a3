//! The runner, from outside: real child processes, its HTTP routes, its state folder.

mod conditions;
mod events;
mod heartbeats;
mod lives;
mod messages;
mod overnight;
mod races;
mod refusals;
mod restarts;
mod starts;
mod trees;
mod usage;
