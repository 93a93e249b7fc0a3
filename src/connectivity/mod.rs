//! Is a runner there, and does it hold the engines of these sessions? The one place that says what an answer means.
//!
//! `answer.rs` classifies what came of asking a runner for its tracked set; a pass, the command line and the overview of
//! a supervisor all go by it. `probes.rs` asks on behalf of many at once. Nothing here decides about a session, writes its
//! row or counts as a use of it.

mod answer;
mod probes;

pub use answer::{Classified, RunnerConnectivity, SessionConnectivity, classify, remember};
pub use probes::{Probe, Probes};
