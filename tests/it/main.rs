//! Tests of the library through its public face, one binary for all.
#![expect(clippy::unwrap_used, reason = "a test that fails should say where")]

mod rows;
mod store;
mod store_candidates;
mod store_open;
mod store_race;
mod store_story;
