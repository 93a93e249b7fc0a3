//! Does a session's engine work right now? A question, and no use of the session.

use crate::protocol::{EngineState, TrackedSession};
use crate::runner_client::Observation;
use crate::session::Session;
use crate::store::StoreError;
use crate::tools::Tools;
use crate::verbs::{VerbError, runner_of};

/// What a session's runner says about its engine. Where it says nothing, nothing is made up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generating {
    /// Whether the runner answered; of the engine it may say nothing all the same.
    pub answered: bool,
    /// Whether a turn is running.
    pub generating: Option<bool>,
    /// How many background tasks are running.
    pub background_tasks: Option<u32>,
    /// Whether the engine waits for a person's answer.
    pub awaiting_input: Option<bool>,
    /// Whether the running turn has been silent for so long that the runner calls it stalled.
    pub stalled: Option<bool>,
    /// Why it cannot be told whether a turn is running, where it cannot.
    pub why: Option<String>,
}

/// Asks the runner of an open session what its engine does. Nothing is written, and the runner's idle clock goes on.
///
/// # Errors
/// When the store fails.
pub async fn generating(tools: &Tools, session: &Session) -> Result<Generating, StoreError> {
    let runner = &session.runner_id;
    let target = match runner_of(tools, runner).await {
        Ok(target) => target,
        Err(VerbError::Store(error)) => return Err(error),
        Err(error) => return Ok(unknown(false, error.to_string())),
    };
    let observation = tools.runners.tracked(&target).await;
    let Observation::Live(set) = observation else {
        let why = observation.why().unwrap_or("it did not answer");
        return Ok(unknown(false, format!("runner {runner} could not be asked: {why}")));
    };
    let is_it = |engine: &&TrackedSession| {
        engine.session_id == session.id && engine.generation.is_none_or(|generation| generation == session.generation)
    };
    Ok(match set.tracked.iter().find(is_it) {
        Some(engine) => told(&engine.state, || format!("runner {runner} cannot tell")),
        None => unknown(true, format!("runner {runner} holds no engine for this start of the session")),
    })
}

fn told(state: &EngineState, why: impl FnOnce() -> String) -> Generating {
    let generating = state.generating.value();
    Generating {
        answered: true,
        generating,
        background_tasks: state.background_tasks.value(),
        awaiting_input: state.awaiting_input.value(),
        stalled: state.stalled.value(),
        why: generating.is_none().then(why),
    }
}

fn unknown(answered: bool, why: String) -> Generating {
    Generating { why: Some(why), answered, ..told(&EngineState::default(), String::new) }
}
