//! What the tests share.

pub(crate) mod events;
pub(crate) mod fake_runner;
pub(crate) mod processes;
pub(crate) mod rows;
pub(crate) mod runner;
pub(crate) mod world;
