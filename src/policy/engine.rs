//! May this engine be stopped, as far as the engine itself is concerned?
//!
//! The runner asks this under its own lock right before a stop; the worker asks it about what a runner reported, to
//! nominate and to explain. One function, so that both always agree.

use crate::protocol::{Because, EngineState, StopLimits, Told};
use crate::time::Ms;
use crate::verdict::Verdict;

/// What the engine's own state says about a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineSays {
    /// Nothing protects it; the verdict tells as what it would be reaped: `idle`, `stalled` or `awaiting_expired`.
    MayStop(Verdict),
    /// It is protected.
    Protected {
        /// By what.
        because: Because,
        /// In how long that can end at the earliest, where it can be told.
        for_ms: Option<Ms>,
    },
    /// It says that it does not know, and has not been silent for long enough to be past all doubt.
    Undetermined,
}

/// Decides whether `engine` may be stopped.
///
/// It may, if and only if: no turn is running (or the running one has been silent for `stalled_for_ms`), no background
/// task is (or all have been silent for `background_for_ms`), no wake-up is pending (or it is overdue by
/// `stalled_for_ms`, or due later than `background_for_ms`), no question is open (or it is `awaiting_for_ms` old), no
/// state is unknown (or it has been silent for `background_for_ms`), and nothing has used it for `quiet_for_ms`.
/// A field that was not sent says nothing. Exactly at a limit is past it.
#[must_use]
pub fn may_stop(engine: &EngineState, limits: &StopLimits) -> EngineSays {
    let idle = engine.idle_ms.value();
    let waits = [turn(engine, limits), background(engine, limits), wake(engine, limits), question(engine, limits)];
    if let Some(protected) = waits.into_iter().flatten().next() {
        return protected;
    }
    if is_unknown(engine) && idle.is_none_or(|ms| ms < limits.background_for_ms) {
        return EngineSays::Undetermined;
    }
    match idle {
        Some(ms) if ms < limits.quiet_for_ms => {
            EngineSays::Protected { because: Because::Active, for_ms: Some(limits.quiet_for_ms.saturating_sub(ms)) }
        }
        _ => EngineSays::MayStop(reason(engine)),
    }
}

/// Returns whether the engine works right now, which counts as activity of kind `engine`.
#[must_use]
pub fn is_working(engine: &EngineState, limits: &StopLimits) -> bool {
    turn(engine, limits).is_some() || background(engine, limits).is_some() || wake(engine, limits).is_some()
}

fn reason(engine: &EngineState) -> Verdict {
    match (engine.generating, engine.awaiting_input) {
        (_, Told::Is(true)) => Verdict::AwaitingExpired,
        (Told::Is(true), _) => Verdict::Stalled,
        _ => Verdict::Idle,
    }
}

/// A turn protects until it has been silent for `stalled_for_ms`. A turn that waits for a person is the question's case.
fn turn(engine: &EngineState, limits: &StopLimits) -> Option<EngineSays> {
    let silent = engine.turn_silent_ms.or(engine.idle_ms.value());
    let stalled = match silent {
        Some(ms) => ms >= limits.stalled_for_ms,
        None => engine.stalled == Told::Is(true),
    };
    let waits_for_a_person = engine.awaiting_input == Told::Is(true);
    (engine.generating == Told::Is(true) && !stalled && !waits_for_a_person).then(|| EngineSays::Protected {
        because: Because::Generating,
        for_ms: silent.map(|ms| limits.stalled_for_ms.saturating_sub(ms)),
    })
}

fn background(engine: &EngineState, limits: &StopLimits) -> Option<EngineSays> {
    let silent = engine.background_silent_ms.or(engine.idle_ms.value());
    let live = engine.background_tasks.value().is_some_and(|count| count > 0);
    (live && silent.is_none_or(|ms| ms < limits.background_for_ms)).then(|| EngineSays::Protected {
        because: Because::BackgroundTasks,
        for_ms: silent.map(|ms| limits.background_for_ms.saturating_sub(ms)),
    })
}

fn wake(engine: &EngineState, limits: &StopLimits) -> Option<EngineSays> {
    let due = engine.next_wake_in_ms?;
    let left = due.saturating_add(limits.stalled_for_ms);
    (due <= limits.background_for_ms && left > 0)
        .then_some(EngineSays::Protected { because: Because::PendingWake, for_ms: Some(left) })
}

fn question(engine: &EngineState, limits: &StopLimits) -> Option<EngineSays> {
    // Silence is no older than the question, so it is a safe stand-in for the question's age.
    let asked = engine.awaiting_ms.or(engine.idle_ms.value());
    let open = engine.awaiting_input == Told::Is(true);
    (open && asked.is_none_or(|ms| ms < limits.awaiting_for_ms)).then(|| EngineSays::Protected {
        because: Because::AwaitingInput,
        for_ms: asked.map(|ms| limits.awaiting_for_ms.saturating_sub(ms)),
    })
}

fn is_unknown(engine: &EngineState) -> bool {
    engine.unclear
        || engine.generating == Told::Unknown
        || engine.background_tasks == Told::Unknown
        || engine.awaiting_input == Told::Unknown
        || engine.idle_ms == Told::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{HOUR, MINUTE};

    const LIMITS: StopLimits = StopLimits {
        quiet_for_ms: 6 * HOUR,
        awaiting_for_ms: 24 * HOUR,
        stalled_for_ms: 30 * MINUTE,
        background_for_ms: 24 * HOUR,
    };

    /// An engine that may be stopped: silent for exactly its window, doing nothing.
    fn quiet() -> EngineState {
        EngineState {
            generating: Told::Is(false),
            background_tasks: Told::Is(0),
            awaiting_input: Told::Is(false),
            idle_ms: Told::Is(6 * HOUR),
            ..EngineState::default()
        }
    }

    fn with(change: impl FnOnce(&mut EngineState)) -> EngineSays {
        let mut engine = quiet();
        change(&mut engine);
        may_stop(&engine, &LIMITS)
    }

    fn because(says: EngineSays) -> Option<Because> {
        match says {
            EngineSays::Protected { because, .. } => Some(because),
            EngineSays::MayStop(_) | EngineSays::Undetermined => None,
        }
    }

    #[test]
    fn silence_protects_until_exactly_the_window() {
        assert_eq!(because(with(|e| e.idle_ms = Told::Is(6 * HOUR - 1))), Some(Because::Active));
        assert_eq!(with(|_| ()), EngineSays::MayStop(Verdict::Idle));
        assert_eq!(with(|e| e.idle_ms = Told::Is(6 * HOUR + 1)), EngineSays::MayStop(Verdict::Idle));
    }

    #[test]
    fn a_turn_protects_until_it_is_stalled() {
        for (silent, expected) in
            [(30 * MINUTE - 1, Some(Because::Generating)), (30 * MINUTE, None), (30 * MINUTE + 1, None)]
        {
            let says = with(|e| {
                e.generating = Told::Is(true);
                e.turn_silent_ms = Some(silent);
            });
            assert_eq!(because(says), expected, "{silent}");
        }
        let stalled_but_fresh = with(|e| {
            e.generating = Told::Is(true);
            e.turn_silent_ms = Some(30 * MINUTE);
            e.idle_ms = Told::Is(30 * MINUTE);
        });
        assert_eq!(because(stalled_but_fresh), Some(Because::Active), "stalled only stops protecting");
    }

    #[test]
    fn a_background_task_protects_until_it_is_silent_for_its_limit() {
        for (silent, expected) in
            [(24 * HOUR - 1, Some(Because::BackgroundTasks)), (24 * HOUR, None), (24 * HOUR + 1, None)]
        {
            let says = with(|e| {
                e.background_tasks = Told::Is(1);
                e.background_silent_ms = Some(silent);
            });
            assert_eq!(because(says), expected, "{silent}");
        }
    }

    #[test]
    fn a_wake_up_protects_between_its_two_limits() {
        let wake = |due| because(with(|e| e.next_wake_in_ms = Some(due)));
        assert_eq!(wake(24 * HOUR + 1), None);
        assert_eq!(wake(24 * HOUR), Some(Because::PendingWake));
        assert_eq!(wake(0), Some(Because::PendingWake));
        assert_eq!(wake(-30 * MINUTE + 1), Some(Because::PendingWake));
        assert_eq!(wake(-30 * MINUTE), None);
    }

    #[test]
    fn absurd_numbers_overflow_nothing_and_still_protect() {
        let limits = StopLimits {
            quiet_for_ms: Ms::MAX,
            awaiting_for_ms: Ms::MAX,
            stalled_for_ms: Ms::MAX,
            background_for_ms: Ms::MAX,
        };
        let all = [
            (|e: &mut EngineState| e.next_wake_in_ms = Some(Ms::MAX)) as fn(&mut EngineState),
            |e| e.generating = Told::Is(true),
            |e| e.background_tasks = Told::Is(1),
            |e| e.awaiting_input = Told::Is(true),
            |_| (),
        ];
        for change in all {
            let mut engine = EngineState { idle_ms: Told::Is(Ms::MIN), ..quiet() };
            change(&mut engine);
            let says = may_stop(&engine, &limits);
            assert!(matches!(says, EngineSays::Protected { for_ms: Some(Ms::MAX), .. }), "{says:?}");
        }
    }

    #[test]
    fn a_question_needs_both_limits() {
        for (asked, expected) in
            [(24 * HOUR - 1, Some(Because::AwaitingInput)), (24 * HOUR, None), (24 * HOUR + 1, None)]
        {
            let says = with(|e| {
                e.awaiting_input = Told::Is(true);
                e.awaiting_ms = Some(asked);
            });
            assert_eq!(because(says), expected, "{asked}");
        }
        let says = with(|e| {
            e.awaiting_input = Told::Is(true);
            e.generating = Told::Is(true);
            e.awaiting_ms = Some(24 * HOUR);
        });
        assert_eq!(says, EngineSays::MayStop(Verdict::AwaitingExpired));
    }

    #[test]
    fn unknown_keeps_for_as_long_as_a_background_task_would() {
        for change in [
            (|e: &mut EngineState| e.generating = Told::Unknown) as fn(&mut EngineState),
            |e| e.background_tasks = Told::Unknown,
            |e| e.awaiting_input = Told::Unknown,
        ] {
            assert_eq!(with(change), EngineSays::Undetermined);
            let long_silent = with(|e| {
                change(e);
                e.idle_ms = Told::Is(24 * HOUR);
            });
            assert_eq!(long_silent, EngineSays::MayStop(Verdict::Idle));
        }
        assert_eq!(with(|e| e.idle_ms = Told::Unknown), EngineSays::Undetermined);
        assert_eq!(with(|e| e.unclear = true), EngineSays::Undetermined);
    }

    #[test]
    fn a_field_that_was_not_sent_says_nothing() {
        assert_eq!(may_stop(&EngineState::default(), &LIMITS), EngineSays::MayStop(Verdict::Idle));
    }
}
