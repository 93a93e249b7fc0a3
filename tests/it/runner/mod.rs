//! The runner, from outside: real child processes, its HTTP routes, its state folder.

mod conditions;
mod faults;
mod idle_clock;
mod kills;
mod lives;
mod recovery;
mod refusals;
mod restarts;
mod starts;
mod streaming;
mod trees;
