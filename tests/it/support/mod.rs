//! What the tests share.

pub(crate) mod fake_runner;
pub(crate) mod rows;
pub(crate) mod world;
