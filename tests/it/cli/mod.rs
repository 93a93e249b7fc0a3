//! The `sexton` program as a person or a script meets it: a real process with folders of its own.

mod doctor;
mod faults;
mod help;
pub(crate) mod house;
mod lease;
mod live;
mod look;
mod owners;
mod reload;
