//! Real engines, where they are installed, against a model's API on the loopback.
//!
//! They are looked for in `$SEXTON_TEST_ENGINES/node_modules/.bin` and on the `PATH`. A test that lacks its engine says that
//! it was skipped; with `engines` or `all` in `SEXTON_REQUIRE` it fails.

mod acp;
mod bridge;
mod bridge_live;
mod claude;
mod codex;
mod installed;
mod model_api;
mod opencode;
mod real;
mod reaped;
