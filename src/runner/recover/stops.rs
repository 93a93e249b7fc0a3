//! What becomes of a stop that was written down when the runner died: it goes on, or was done, for its own reason, if it
//! had reached the engine's shim; else it is forgotten, unless a person had asked for it.
//!
//! Its condition may not hold any more, and nobody was told that it was done. Only the shim knows whether the order had
//! come: it says so for as long as it is there, and leaves it behind in its last record.

use crate::runner::engine::{Ending, Engine, Facts};
use crate::runner::intents::{self, EndIntent};
use crate::runner::shim::wire::{Gone, Hello};
use crate::runner::{Runner, files};

/// What becomes of the stop of an engine that is there.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It goes on.
    GoesOn(Ending),
    /// The engine had left by itself before, and what it left behind is stopped.
    CameTooLate,
    /// It is forgotten.
    Forgotten,
    /// There is none, or nobody knows yet.
    Open,
}

impl Runner {
    /// Goes on with the stop that an earlier life had written down or begun, or forgets it; `hello` is none as long as
    /// the shim does not answer.
    ///
    /// What must be true of a stop that goes on: it is of this generation, and the shim has begun it, or a person asked
    /// for it, whatever the engine does. That one is marked at once, so that nobody uses an engine that is about to go.
    pub(crate) async fn go_on_stopping(&self, session: &Engine, hello: Option<&Hello>) {
        let fate = {
            let mut facts = session.facts();
            let fate = fate(unfinished(&facts).as_ref(), hello);
            match &fate {
                Fate::GoesOn(ending) => ends_by(session, &mut facts, ending.clone()),
                Fate::CameTooLate => ends_by(session, &mut facts, by("exited")),
                Fate::Forgotten | Fate::Open => {}
            }
            if hello.is_some() {
                facts.unfinished = None;
            }
            fate
        };
        match fate {
            Fate::GoesOn(_) => session.closing.cancel(),
            Fate::CameTooLate => {
                // Before the shim is told anything, which the next life would take for the stop that is written down.
                self.forget_stop(session).await;
                session.closing.cancel();
            }
            Fate::Forgotten => {
                // Whoever changes it right now may have written down another one.
                if let Ok(_alone) = session.change.try_lock() {
                    self.forget_stop(session).await;
                }
            }
            Fate::Open => {}
        }
    }

    /// Removes the intent of a stop that never began.
    async fn forget_stop(&self, session: &Engine) {
        let folder = self.dir().session(&session.id);
        if let Err(error) = files::aside(move || intents::remove_end(&folder)).await {
            tracing::warn!(session_id = %session.id, %error, "a stop that never began cannot be taken back");
        }
    }
}

impl Engine {
    /// Gives the end of an engine whose shim was never met, and is gone, the reason of the stop that it came from.
    ///
    /// One that had left by itself before its stop reached it did not end by that.
    pub(crate) fn stop_is_over(&self, gone: Option<&Gone>) {
        let mut facts = self.facts();
        let end = unfinished(&facts);
        match that_ended(end.as_ref(), gone) {
            Some(intent) => ends_by(self, &mut facts, ending(intent)),
            None if end.is_some() => ends_by(self, &mut facts, by("exited")),
            None => {}
        }
    }
}

/// Returns the stop that was written down, if the engine that is gone came to its end by it.
///
/// Without the shim's last record nobody knows whether the order had come; but it was decided by right, and its shim or
/// the machine died while it was on its way.
pub(super) fn that_ended<'a>(end: Option<&'a EndIntent>, gone: Option<&Gone>) -> Option<&'a EndIntent> {
    end.filter(|_| gone.is_none_or(|gone| gone.asked))
}

/// Returns the end that a stop comes to. The steps are those that the shim tells.
pub(super) fn ending(intent: &EndIntent) -> Ending {
    Ending { sweep_id: intent.sweep_id.clone(), ..by(&intent.reason) }
}

fn by(reason: &str) -> Ending {
    Ending { reason: reason.to_owned(), ..Ending::default() }
}

fn unfinished(facts: &Facts) -> Option<EndIntent> {
    facts.unfinished.clone().filter(|intent| intent.generation == facts.generation)
}

/// Marks the engine as ending for this reason, also one that was marked before anybody knew.
fn ends_by(session: &Engine, facts: &mut Facts, ending: Ending) {
    match &mut facts.ending {
        Some(known) => (known.reason, known.sweep_id, known.asked) = (ending.reason, ending.sweep_id, false),
        None => drop(session.begin_end(facts, ending)),
    }
}

/// Returns what becomes of a stop, by what the shim says of itself.
fn fate(end: Option<&EndIntent>, hello: Option<&Hello>) -> Fate {
    let (stopping, left, empty) =
        hello.map_or((false, false, false), |hello| (hello.stopping, hello.exit.is_some(), hello.engine.is_none()));
    match end {
        Some(intent) if stopping => Fate::GoesOn(ending(intent)),
        Some(intent) if intent.forced && left => Fate::CameTooLate,
        Some(intent) if intent.forced => Fate::GoesOn(ending(intent)),
        Some(_) if hello.is_some() => Fate::Forgotten,
        None if stopping => Fate::GoesOn(by("exited")),
        None if empty => Fate::GoesOn(by("start_failed")),
        Some(_) | None => Fate::Open,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const EXIT: &str = r#"{"code":0}"#;

    fn hello(stopping: bool, exit: Option<&str>, engine: bool) -> Hello {
        let who = json!({"pid": 1, "started": 1});
        let exit: Value = exit.map_or(Value::Null, |exit| serde_json::from_str(exit).unwrap());
        let told = json!({
            "version": 1, "shim": who, "engine": engine.then_some(who), "exit": exit, "stopping": stopping,
            "note": null, "base": 0, "head": 0, "errors": 0, "output_at": null, "errors_at": null, "input_at": null,
            "answered": null, "stuck": [], "trouble": null, "containment": "subreaper", "messages": 0,
        });
        serde_json::from_value(told).unwrap()
    }

    fn intent(forced: bool) -> EndIntent {
        let sweep_id = Some("sweep-1".parse().unwrap());
        EndIntent { generation: 1, reason: "why".to_owned(), sweep_id, forced, resume: None }
    }

    #[test]
    fn a_stop_goes_on_if_it_had_reached_the_shim_or_a_person_wants_it_and_else_it_is_forgotten() {
        let (wanted, plain) = (intent(true), intent(false));
        let own = || Fate::GoesOn(ending(&plain));
        let silent = None;
        let (stops, lives) = (hello(true, None, true), hello(false, None, true));
        let (stopped, left) = (hello(true, Some(EXIT), true), hello(false, Some(EXIT), true));
        let empty = hello(false, None, false);
        for (end, hello, expected) in [
            (Some(&plain), silent, Fate::Open),
            (Some(&plain), Some(&stops), own()),
            (Some(&plain), Some(&stopped), own()),
            (Some(&plain), Some(&lives), Fate::Forgotten),
            (Some(&plain), Some(&left), Fate::Forgotten),
            (Some(&wanted), silent, own()),
            (Some(&wanted), Some(&stops), own()),
            (Some(&wanted), Some(&lives), own()),
            (Some(&wanted), Some(&left), Fate::CameTooLate),
            (None, silent, Fate::Open),
            (None, Some(&lives), Fate::Open),
            (None, Some(&left), Fate::Open),
            (None, Some(&stops), Fate::GoesOn(by("exited"))),
            (None, Some(&empty), Fate::GoesOn(by("start_failed"))),
        ] {
            assert_eq!(fate(end, hello), expected, "{end:?} {hello:?}");
        }
    }

    #[test]
    fn an_engine_that_is_gone_ended_by_its_stop_only_if_that_had_reached_its_shim() {
        let gone = |told: Value| serde_json::from_value::<Gone>(told).unwrap();
        let stages = json!([{"stage": "sigterm_tree", "at_ms": 0}, {"stage": "empty", "at_ms": 5}]);
        let end = intent(false);
        for (told, by_it) in [
            (json!({"exit": null, "stages": stages, "asked": true}), true),
            (json!({"exit": null, "stages": stages, "asked": false}), false),
        ] {
            assert_eq!(that_ended(Some(&end), Some(&gone(told.clone()))).is_some(), by_it, "{told}");
        }
        assert!(that_ended(Some(&end), None).is_some() && that_ended(None, None).is_none());
    }
}
