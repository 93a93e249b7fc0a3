//! The verbs on a scripted runner.

mod ready;
