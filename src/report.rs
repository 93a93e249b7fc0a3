//! What one pass saw and did. The counts add up in every part: `examined` = `reaped` + the sum of `kept`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::session::Id;
use crate::time::{Ms, UtcMs};
use crate::verdict::Verdict;
use crate::words::words;

words! {
    /// What set off a pass.
    Trigger {
        /// The schedule.
        Schedule = "schedule",
        /// A person at the command line.
        Manual = "manual",
        /// A request to the API.
        Api = "api",
    }
}

words! {
    /// The parts of a pass, in their order.
    PartName {
        /// Ask the runners; finish what they say has ended; settle rows that never left `starting`.
        Observe = "observe",
        /// Mark runs without heartbeat.
        Runs = "runs",
        /// Reap idle sessions.
        Idle = "idle",
        /// Close rows without an engine.
        Orphans = "orphans",
        /// Stop engines without a row.
        Strays = "strays",
        /// Hand events to webhooks; what became of each is told as `kept`, by its word.
        Deliveries = "deliveries",
    }
}

words! {
    /// How a runner answered in this pass.
    RunnerState {
        /// With a recognisable tracked set.
        Live = "live",
        /// With something else.
        Unrecognised = "unrecognised",
        /// Not at all.
        Offline = "offline",
        /// That the secret is not accepted.
        Unauthorised = "unauthorised",
        /// Under another identity, or from an older state of its own.
        Unknown = "unknown",
    }
}

words! {
    /// What was done about a session.
    Action {
        /// Its engine was stopped and its row closed.
        Stopped = "stopped",
        /// Its row was closed; there was no engine to stop, or none that could be reached.
        Closed = "closed",
        /// Its closed row was opened again.
        Reopened = "reopened",
        /// Its run was marked.
        Marked = "marked",
        /// Nothing.
        Kept = "kept",
        /// A dry run would stop it.
        WouldStop = "would_stop",
        /// A dry run would close it.
        WouldClose = "would_close",
        /// A dry run would mark it.
        WouldMark = "would_mark",
    }
}

/// What one pass saw and did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SweepReport {
    /// The pass.
    pub sweep_id: Id,
    /// What set it off.
    pub trigger: Trigger,
    /// Whether it only said what it would do.
    pub dry_run: bool,
    /// When it began.
    pub started_at: UtcMs,
    /// How long it took, in milliseconds.
    pub elapsed_ms: Ms,
    /// Whether the reaper was paused when it began.
    pub paused: bool,
    /// How each enrolled runner answered.
    pub runners: Vec<RunnerReport>,
    /// What each part did; parts that were not asked for stand there with zeros.
    #[serde(flatten)]
    #[schema(value_type = BTreeMap<String, PartReport>)]
    pub parts: BTreeMap<PartName, PartReport>,
}

impl SweepReport {
    /// Returns whether some sessions could not be handled.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.parts.values().any(|part| !part.errors.is_empty())
    }

    /// Returns whether the pass did anything that somebody may want to look at later. What is merely shown again in each
    /// pass, such as an engine of another control plane, is no such thing.
    #[must_use]
    pub fn is_eventful(&self) -> bool {
        let did = |item: &Item| item.action != Action::Kept;
        let refused = self.part(PartName::Idle).kept.contains_key(&Verdict::Refused);
        refused || self.parts.values().any(|part| !part.errors.is_empty() || part.items.iter().any(did))
    }

    /// Adds up all parts. What was delivered is no session that was kept.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (name, part) in &self.parts {
            let ended = if *name == PartName::Observe { &mut totals.settled } else { &mut totals.reaped };
            *ended += part.reaped;
            if *name != PartName::Deliveries {
                totals.kept += part.kept.values().sum::<u64>();
            }
            totals.errors += part.errors.len() as u64;
        }
        totals
    }

    /// Returns the part of this name.
    #[must_use]
    pub fn part(&self, name: PartName) -> &PartReport {
        static NONE: PartReport =
            PartReport { examined: 0, reaped: 0, kept: BTreeMap::new(), errors: Vec::new(), items: Vec::new() };
        self.parts.get(&name).unwrap_or(&NONE)
    }
}

/// The sums over all parts of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Rows closed because their runner said that the engine is gone, or has none: no rule took them.
    pub settled: u64,
    /// Ended by a rule, or in a dry run: would be.
    pub reaped: u64,
    /// Kept.
    pub kept: u64,
    /// Of those kept, the ones that could not be handled.
    pub errors: u64,
}

/// How one runner answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunnerReport {
    /// The runner.
    pub runner_id: Id,
    /// How it answered.
    pub state: RunnerState,
    /// Why, when it is not `live`.
    pub why: Option<String>,
}

/// What one part saw and did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct PartReport {
    /// How many sessions, runs or engines it looked at, or attempts at a delivery it made.
    pub examined: u64,
    /// How many of them it ended, or would end in a dry run.
    pub reaped: u64,
    /// How many it kept, by the verdict that kept them.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub kept: BTreeMap<Verdict, u64>,
    /// What went wrong with some of those that it kept.
    pub errors: Vec<ItemError>,
    /// Everything reaped or refused; in a dry run, everything examined.
    pub items: Vec<Item>,
}

impl PartReport {
    /// Counts what became of a session.
    pub(crate) fn count(&mut self, session_id: Id, fate: Fate) {
        match fate {
            Fate::Reaped(item) => self.reap(item),
            Fate::Kept(verdict) => self.keep(verdict),
            Fate::Shown(item) => self.keep_item(item),
            Fate::Failed(message) => self.fail(session_id, Verdict::StopFailed, message),
        }
    }

    /// Adds what another piece of the same part counted.
    pub(crate) fn merge(&mut self, other: Self) {
        self.examined += other.examined;
        self.reaped += other.reaped;
        for (verdict, count) in other.kept {
            *self.kept.entry(verdict).or_default() += count;
        }
        self.errors.extend(other.errors);
        self.items.extend(other.items);
    }

    /// Counts one that was ended.
    pub fn reap(&mut self, item: Item) {
        self.examined += 1;
        self.reaped += 1;
        self.items.push(item);
    }

    /// Counts one that was kept.
    pub fn keep(&mut self, verdict: Verdict) {
        self.keep_many(verdict, 1);
    }

    /// Counts several that were kept under one verdict.
    pub fn keep_many(&mut self, verdict: Verdict, count: u64) {
        if count > 0 {
            self.examined += count;
            *self.kept.entry(verdict).or_default() += count;
        }
    }

    /// Counts one that was kept and is worth showing.
    pub fn keep_item(&mut self, item: Item) {
        self.keep(item.verdict);
        self.items.push(item);
    }

    /// Counts one that was kept because of a failure.
    pub fn fail(&mut self, session_id: Id, verdict: Verdict, message: String) {
        self.keep(verdict);
        self.errors.push(ItemError { session_id, message });
    }
}

/// What became of one session in a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was ended.
    Reaped(Item),
    /// It was kept.
    Kept(Verdict),
    /// It was kept, and the report shows it.
    Shown(Item),
    /// It was kept, since the runner did not confirm that it stopped the engine.
    Failed(String),
}

/// One session of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Item {
    /// The session.
    pub session_id: Id,
    /// What was decided.
    pub verdict: Verdict,
    /// What was done.
    pub action: Action,
    /// One sentence a person understands.
    pub message: String,
}

/// One failure of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ItemError {
    /// The session.
    pub session_id: Id,
    /// One sentence a person can act on.
    pub message: String,
}
