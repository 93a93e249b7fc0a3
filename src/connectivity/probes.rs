//! Asking runners whether they are there, once however many want to know, and telling it again for a few seconds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;

use crate::connectivity::answer::{Classified, RunnerConnectivity, SessionConnectivity, classify, presence, remember};
use crate::runner_client::Target;
use crate::session::{Id, Runner};
use crate::store::Placement;
use crate::time::{Ms, UtcMs};
use crate::tools::Tools;

/// What a runner answered when it was last asked.
#[derive(Debug)]
pub struct Probe {
    /// The runner.
    pub runner_id: Id,
    /// Whether it is there.
    pub state: RunnerConnectivity,
    /// Why, when it is not connected.
    pub why: Option<String>,
    /// When it was asked.
    pub asked_at: UtcMs,
    /// The same moment on the clock that runs on in sleep.
    asked_elapsed: Ms,
    /// When its answer was there, on that clock.
    answered_elapsed: Ms,
    /// Where it was asked.
    url: String,
    /// The generations under which it lists each session.
    listed: HashMap<Id, Vec<Option<i64>>>,
}

impl Probe {
    /// Returns how old the answer is at the most.
    #[must_use]
    pub fn age(&self, tools: &Tools) -> Ms {
        tools.clock.elapsed() - self.asked_elapsed
    }

    /// Says whether the runner holds the engine of a session, whose row was read after the answer.
    #[must_use]
    pub fn presence(&self, session: &Placement) -> SessionConnectivity {
        if self.state != RunnerConnectivity::Connected {
            return SessionConnectivity::Unknown;
        }
        presence(session, self.listed.get(&session.session_id).map_or(&[], Vec::as_slice), self.asked_at)
    }
}

/// The latest answer of each runner. Cheap to clone; all clones share them.
#[derive(Debug, Clone, Default)]
pub struct Probes(Arc<Mutex<HashMap<Id, Arc<Slot>>>>);

/// The latest answer of one runner.
#[derive(Debug, Default)]
struct Slot {
    /// Held while the runner is asked: whoever comes meanwhile waits for that answer.
    latest: tokio::sync::Mutex<Option<Arc<Probe>>>,
    /// How many answers there were.
    answers: AtomicU64,
}

impl Probes {
    /// Returns what a runner answers: asked now, or less than `limits.connectivity_cache` ago, or by somebody else while this
    /// call waited. What it shows of itself is remembered as in a pass; nothing else is written.
    pub async fn probe(&self, tools: &Tools, runner: &Runner) -> Arc<Probe> {
        let slot = self.slot(&runner.id);
        let answers = slot.answers.load(Ordering::Acquire);
        let mut latest = slot.latest.lock().await;
        let came_meanwhile = slot.answers.load(Ordering::Acquire) != answers;
        if let Some(probe) = latest.as_ref().filter(|probe| probe.url == runner.url)
            && (came_meanwhile || is_fresh(tools, probe))
        {
            return Arc::clone(probe);
        }
        let probe = Arc::new(ask(tools, runner).await);
        *latest = Some(Arc::clone(&probe));
        slot.answers.fetch_add(1, Ordering::Release);
        probe
    }

    /// Returns what each of the runners answers, in their order, asked side by side.
    pub async fn probe_all(&self, tools: &Tools, runners: Vec<Runner>) -> Vec<Arc<Probe>> {
        let at_once = tools.config().limits.runners_at_once as usize;
        let asked = futures_util::stream::iter(runners).map(|runner| async move { self.probe(tools, &runner).await });
        asked.buffered(at_once).collect().await
    }

    fn slot(&self, runner: &Id) -> Arc<Slot> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(runner.clone()).or_default())
    }
}

fn is_fresh(tools: &Tools, probe: &Probe) -> bool {
    tools.clock.elapsed() - probe.answered_elapsed < tools.config().limits.connectivity_cache.0
}

/// Asks one runner, within the client's limits of time.
async fn ask(tools: &Tools, runner: &Runner) -> Probe {
    let (asked_at, asked_elapsed) = (tools.clock.now(), tools.clock.elapsed());
    let observation = tools.runners.tracked(&Target::from(runner)).await;
    if let Err(error) = remember(&tools.store, &runner.id, &observation, tools.clock.now()).await {
        tracing::warn!(runner_id = %runner.id, %error, "what a runner showed of itself could not be remembered");
    }
    let Classified { connectivity, why, set, .. } = classify(observation);
    let mut listed: HashMap<Id, Vec<Option<i64>>> = HashMap::with_capacity(set.tracked.len());
    for engine in set.tracked {
        listed.entry(engine.session_id).or_default().push(engine.generation);
    }
    Probe {
        runner_id: runner.id.clone(),
        state: connectivity,
        why,
        asked_at,
        asked_elapsed,
        answered_elapsed: tools.clock.elapsed(),
        url: runner.url.clone(),
        listed,
    }
}
