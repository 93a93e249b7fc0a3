//! The rules, pure: facts + limits + now → verdict with its evidence.

pub mod engine;
