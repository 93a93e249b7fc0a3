//! What the tests share.

pub(crate) mod cgroups;
pub(crate) mod daemon;
pub(crate) mod events;
pub(crate) mod fake_runner;
pub(crate) mod model_api;
pub(crate) mod processes;
pub(crate) mod receiver;
pub(crate) mod rows;
pub(crate) mod runner;
pub(crate) mod sse;
pub(crate) mod stream;
pub(crate) mod world;
