//! What stands in for the silence that a plain runner does not tell.

use crate::policy::engine::is_working;
use crate::protocol::{EngineState, StopLimits, Told};
use crate::session::Session;
use crate::time::UtcMs;

/// A runner that tells no silence leaves only the row's to go by: for an open question, and for an unknown state. Not for
/// an engine that works, since work that the row has not yet heard of is no silence.
pub(super) fn with_silence_of_the_row(
    engine: &EngineState,
    limits: &StopLimits,
    session: &Session,
    now: UtcMs,
) -> EngineState {
    let mut state = engine.clone();
    if state.idle_ms.is_silent() && !is_working(&state, limits) {
        state.idle_ms = session.last_used().map_or(Told::Unknown, |at| Told::Is(now.since(at)));
    }
    state
}
