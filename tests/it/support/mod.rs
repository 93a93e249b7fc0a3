//! What several tests share.

pub(crate) mod fake_runner;
