//! The runner, from outside: real child processes, its HTTP routes, its state folder.

mod conditions;
mod lives;
mod refusals;
mod restarts;
mod starts;
mod trees;
