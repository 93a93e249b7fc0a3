//! The verbs on a scripted runner.

mod meanwhile;
mod ready;
