//! The shim by itself: the real program, spoken with over its socket.

mod cgroups;
mod driver;
mod input;
mod lives;
mod memory;
mod output;
mod stops;
mod trees;
