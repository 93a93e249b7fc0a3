//! What came of asking a runner for its tracked set, in words; and what is remembered of it.

use crate::protocol::tracked::TrackedSet;
use crate::report::RunnerState;
use crate::runner_client::Observation;
use crate::session::Id;
use crate::store::{Placement, Store, StoreError};
use crate::time::UtcMs;
use crate::words::words;

words! {
    /// Whether a runner is there.
    RunnerConnectivity {
        /// It answered with a recognisable tracked set.
        Connected = "connected",
        /// It answered that it is not ready yet, as after a restart.
        NotReady = "not_ready",
        /// It did not answer.
        Offline = "offline",
        /// It answered that the secret is not accepted.
        Unauthorised = "unauthorised",
        /// Something else answered, or another runner, or an older state of this one.
        Unknown = "unknown",
    }
}

words! {
    /// Whether a runner holds the engine of a session.
    SessionConnectivity {
        /// It says that it does, for this very start of the session.
        Tracked = "tracked",
        /// It is connected, and its set lists no engine of the session, which had been started before it was asked.
        Missing = "missing",
        /// That cannot be told.
        Unknown = "unknown",
    }
}

/// An answer and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// In the words of an overview.
    pub connectivity: RunnerConnectivity,
    /// In the words of a pass, which does not tell a runner that is not ready from one that cannot be understood.
    pub state: RunnerState,
    /// Why, when it is not connected.
    pub why: Option<String>,
    /// No connection could be made at all.
    pub unconnected: bool,
    /// What the runner holds; empty when it is not connected.
    pub set: TrackedSet,
}

/// Says what an answer means.
#[must_use]
pub fn classify(observation: Observation) -> Classified {
    let unconnected = !observation.reached();
    let (connectivity, state, why) = match observation {
        Observation::Live(set) => {
            let (connectivity, state) = (RunnerConnectivity::Connected, RunnerState::Live);
            return Classified { connectivity, state, why: None, unconnected, set };
        }
        Observation::NotReady(why) => (RunnerConnectivity::NotReady, RunnerState::Unrecognised, why),
        Observation::Unrecognised(why) => (RunnerConnectivity::Unknown, RunnerState::Unrecognised, why),
        Observation::Unauthorised(why) => (RunnerConnectivity::Unauthorised, RunnerState::Unauthorised, why),
        Observation::Unknown(why) => (RunnerConnectivity::Unknown, RunnerState::Unknown, why),
        Observation::Unanswered(why) | Observation::Unconnected(why) => {
            (RunnerConnectivity::Offline, RunnerState::Offline, why)
        }
    };
    Classified { connectivity, state, why: Some(why), unconnected, set: TrackedSet::default() }
}

/// Remembers what a runner showed of itself in an answer, and that a connection was made; nothing where none was.
///
/// # Errors
/// When the store fails.
pub async fn remember(store: &Store, runner: &Id, observation: &Observation, now: UtcMs) -> Result<(), StoreError> {
    match observation {
        Observation::Live(set) => store.remember_runner(runner, set.into(), now).await,
        Observation::Unconnected(_) => Ok(()),
        Observation::NotReady(_)
        | Observation::Unrecognised(_)
        | Observation::Unauthorised(_)
        | Observation::Unknown(_)
        | Observation::Unanswered(_) => store.record_seen(runner, now).await,
    }
}

/// Says whether a connected runner, asked at `asked_at`, holds the engine of a session; `listed` are the generations under
/// which its set lists the session, none for one without.
///
/// It is missing only if it is not listed at all, and its row is one whose engine had been started before the question:
/// what began later cannot be in the answer. An engine of another start is no engine of this one, and no proof that there
/// is none.
pub(super) fn presence(session: &Placement, listed: &[Option<i64>], asked_at: UtcMs) -> SessionConnectivity {
    let fits = |generation: &Option<i64>| generation.is_none_or(|own| own == session.generation);
    if listed.iter().any(fits) {
        SessionConnectivity::Tracked
    } else if listed.is_empty() && session.is_active && session.began.is_some_and(|at| at < asked_at) {
        SessionConnectivity::Missing
    } else {
        SessionConnectivity::Unknown
    }
}
