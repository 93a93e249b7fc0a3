//! What must be true of an engine that is to be stopped, as the request for the stop says it.

use crate::protocol::{EndMode, EndRequest, StopLimits};
use crate::runner::refusal::Refusal;
use crate::session::Id;

/// What must be true of an engine that is to be stopped.
pub(super) enum Condition {
    /// Nothing but its generation: a person's explicit wish.
    Force,
    /// It is as idle as the limits say, and the answer that says so is fresh.
    IfIdle { limits: StopLimits, stamp: String },
    /// It is as idle as the limits say, by what the runner itself knows at this moment.
    Own { limits: StopLimits },
}

/// Returns the condition of a stop; one without all that it needs is refused, and never taken for none.
pub(super) fn check(request: &EndRequest) -> Result<Condition, Refusal> {
    let bad = |message: &str| Err(Refusal::bad(message).about(&request.session_id, request.generation));
    if !Id::fits(&request.reason) {
        return bad("the reason is not one word of letters, digits, \"_\" or \"-\"");
    }
    match request.mode {
        EndMode::Force => return Ok(Condition::Force),
        EndMode::IfIdle => {}
    }
    let Some(limits) = request.limits else { return bad("a stop with mode if_idle needs its limits") };
    let all = [limits.quiet_for_ms, limits.awaiting_for_ms, limits.stalled_for_ms, limits.background_for_ms];
    if !all.iter().all(|ms| (0..=StopLimits::MOST).contains(ms)) {
        return bad("a limit of a stop is negative or longer than ten years");
    }
    let Some(stamp) = request.stamp.clone() else {
        return bad("a stop with mode if_idle needs the stamp of the answer it rests on");
    };
    Ok(Condition::IfIdle { limits, stamp })
}
