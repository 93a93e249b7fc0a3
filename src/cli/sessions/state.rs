//! What a session does now, in a word or two. Pure.

use crate::cli::live::Live;
use crate::protocol::{EngineState, TrackedSession};
use crate::report::RunnerState;
use crate::session::{Session, Status};
use crate::time::spoken;

/// Says what a session does, as far as its row and its runner tell.
pub(crate) fn word(session: &Session, runner: Option<&Live>, process: Option<&TrackedSession>) -> String {
    if session.status == Status::Ended {
        let reason = session.end_reason.as_deref().unwrap_or("unknown");
        return format!("ended: {reason}");
    }
    match (runner, process) {
        (None, _) => "runner not enrolled".to_owned(),
        (Some(live), _) if live.state != RunnerState::Live => format!("runner {}", live.state),
        (Some(_), None) if session.status == Status::Starting => Status::Starting.to_string(),
        (Some(_), None) => "no engine".to_owned(),
        (Some(_), Some(process)) if process.generation.is_some_and(|own| own != session.generation) => {
            "other generation".to_owned()
        }
        (Some(_), Some(process)) => engine_word(&process.state),
    }
}

/// Says what an engine does, as its runner describes it.
#[must_use]
pub(crate) fn engine_word(state: &EngineState) -> String {
    let tasks = state.background_tasks.value().unwrap_or(0);
    if state.stalled.value() == Some(true) {
        "stalled".to_owned()
    } else if state.generating.value() == Some(true) {
        "generating".to_owned()
    } else if tasks > 0 {
        format!("background {tasks}")
    } else if state.awaiting_input.value() == Some(true) {
        "awaiting input".to_owned()
    } else if let Some(ms) = state.next_wake_in_ms {
        format!("wakes in {}", spoken(ms.max(0)))
    } else if state.generating.is_silent() && state.idle_ms.is_silent() {
        "running".to_owned()
    } else if state.generating.value().is_none() {
        "unknown".to_owned()
    } else {
        "idle".to_owned()
    }
}
