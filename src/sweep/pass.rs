//! What all parts of one pass share: its name, its limits, the runners as they answered, and the brakes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::Config;
use crate::report::{PartName, Trigger};
use crate::session::{Id, Session};
use crate::store::{Store, StoreError};
use crate::sweep::host::HostClock;
use crate::sweep::observe::Post;
use crate::time::{Ms, UtcMs};
use crate::timeline::Actor;
use crate::tools::Tools;
use crate::verdict::Verdict;

/// What a pass is asked to do.
#[derive(Debug, Clone)]
pub struct Request {
    /// What set it off.
    pub trigger: Trigger,
    /// The parts that are asked for; empty means all.
    pub only: Vec<PartName>,
    /// Only say what would be done; write nothing.
    pub dry_run: bool,
}

impl Request {
    /// Returns a request for everything.
    #[must_use]
    pub fn all(trigger: Trigger) -> Self {
        Self { trigger, only: Vec::new(), dry_run: false }
    }

    /// Returns whether this part was asked for.
    #[must_use]
    pub fn wants(&self, part: PartName) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// One pass.
pub(crate) struct Pass {
    pub(crate) tools: Tools,
    /// The settings as they were when the pass began; a change takes effect with the next one.
    pub(crate) config: Arc<Config>,
    pub(crate) id: Id,
    pub(crate) request: Request,
    /// Cancelled when the process is to end: no new stops from then on.
    pub(crate) cancel: CancellationToken,
    /// The enrolled runners by id, each with its latest answer.
    pub(crate) posts: BTreeMap<Id, Arc<Post>>,
    /// What the machine's clocks said about each other when the pass began.
    pub(crate) began: HostClock,
    /// Stops in flight, over all runners.
    pub(crate) stops: Semaphore,
    /// The ends that stand in the store by now, and that runners are to be told to forget when the pass is over.
    pub(crate) settled: Mutex<Vec<Settled>>,
}

/// An end of which a runner need not keep the record any longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) runner: Id,
    pub(crate) session: Id,
    pub(crate) generation: i64,
}

impl Pass {
    pub(crate) fn store(&self) -> &Store {
        &self.tools.store
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns whether the settings of this pass are those that still hold.
    pub(crate) fn has_current_settings(&self) -> bool {
        Arc::ptr_eq(&self.config, &self.tools.config())
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.tools.clock
    }

    /// Returns what the machine's clocks say about each other now: since the last pass, and since this one began.
    pub(crate) fn host(&self) -> HostClock {
        let since = HostClock::read(self.clock(), Some(&self.began.readings));
        HostClock { settled: self.began.settled && since.settled, jumped: self.began.jumped || since.jumped, ..since }
    }

    /// Returns how much of the row's silence this host slept through, or its wall clock leapt over.
    pub(crate) fn asleep(&self, session: &Session, now: UtcMs) -> Ms {
        session.last_used().map_or(0, |at| (now.since(at) - self.host().waking_since(at, now)).max(0))
    }

    /// Returns the verdict that keeps whatever is about to be ended: the process is ending, the reaper is paused, or the
    /// limits of this pass hold no longer; the next pass goes by those that do.
    pub(crate) async fn hold(&self) -> Result<Option<Verdict>, StoreError> {
        if self.cancel.is_cancelled() || !self.has_current_settings() {
            return Ok(Some(Verdict::Limit));
        }
        Ok(self.is_paused().await?.then_some(Verdict::Paused))
    }

    /// Returns who acts in this pass, for entries.
    pub(crate) fn actor(&self) -> Actor {
        Actor { name: "sweep".to_owned(), worker_id: self.tools.worker_id.clone(), sweep_id: Some(self.id.clone()) }
    }

    /// Returns whether the reaper is paused right now: by the settings, or by somebody since.
    pub(crate) async fn is_paused(&self) -> Result<bool, StoreError> {
        Ok(self.config().safety.paused || self.store().is_paused().await?)
    }
}
