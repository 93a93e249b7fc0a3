//! Step 0 of a pass: ask every enrolled runner once, side by side, what it holds and what it says has ended.
//!
//! What a runner says it ended closes those rows, with its reason, before anything else is decided; this is how a pass
//! finishes what an interrupted one began. Rows that never left `starting` are settled here too.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use futures_util::StreamExt;
use tokio::sync::Mutex;

use crate::clock::Clock;
use crate::connectivity::{Classified, classify, remember};
use crate::policy::RunnerView;
use crate::protocol::TrackedSession;
use crate::protocol::tracked::TrackedSet;
use crate::report::{RunnerReport, RunnerState};
use crate::runner_client::{Observation, Target};
use crate::session::{Id, Runner, Session};
use crate::store::StoreError;
use crate::sweep::pass::Pass;
use crate::time::{Ms, SECOND, UtcMs};
use crate::verdict::Verdict;

/// An answer older than this is asked for again before a stop rests on it. A runner refuses at 60 s; half of that leaves
/// room for the request's own way.
const FRESH: Ms = 30 * SECOND;

/// A foreign runner checks nothing itself, so its answer must be much younger.
const FRESH_FOREIGN: Ms = 5 * SECOND;

/// One enrolled runner in one pass.
pub(crate) struct Post {
    pub(crate) runner: Runner,
    latest: Mutex<Arc<Observed>>,
    /// How often it was asked in vain in this pass; after a few times it is left alone until the next.
    unanswered: AtomicU32,
    /// A connection to it was made in this pass: whatever happens next, its machine is not gone.
    connected: AtomicBool,
}

/// After this many stops without an answer a runner is asked for no more in this pass.
const PATIENCE: u32 = 3;

impl Post {
    fn new(runner: Runner, observed: Observed) -> Self {
        let connected = AtomicBool::new(!observed.unconnected);
        Self { runner, latest: Mutex::new(Arc::new(observed)), unanswered: AtomicU32::new(0), connected }
    }

    /// Returns the latest answer.
    pub(crate) async fn latest(&self) -> Arc<Observed> {
        Arc::clone(&*self.latest.lock().await)
    }

    /// Returns an answer that a stop may rest on: the latest one, or a new one if that is over 30 s old. A foreign runner
    /// checks no condition itself, so it is always asked again.
    ///
    /// A runner that keeps silent is not asked for ever: every nominee waits here for the one before it.
    pub(crate) async fn fresh(&self, pass: &Pass) -> Result<Arc<Observed>, StoreError> {
        let mut latest = self.latest.lock().await;
        if !self.is_given_up() && (self.is_foreign() || latest.is_old(pass.clock())) {
            *latest = Arc::new(ask(pass, &self.runner).await?);
            self.connected.fetch_or(!latest.unconnected, Ordering::Relaxed);
            if latest.state == RunnerState::Offline {
                self.gave_no_answer();
            }
        }
        Ok(Arc::clone(&latest))
    }

    /// Returns whether the runner has never spoken the protocol, so that its stops carry no condition.
    pub(crate) fn is_foreign(&self) -> bool {
        self.runner.protocol.is_none()
    }

    pub(crate) fn gave_no_answer(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) >= PATIENCE
    }

    /// Returns the verdict under which every stop on this runner is held back just now, if any.
    ///
    /// A foreign runner checks no condition, so nothing is stopped there on the word of a clock that was just moved, nor
    /// where its row asks for conditional stops only.
    pub(crate) fn brake(&self, pass: &Pass) -> Option<Verdict> {
        if self.is_foreign() && pass.host().jumped {
            Some(Verdict::ClockUnsettled)
        } else if self.is_foreign() && self.runner.require_conditional_stop {
            Some(Verdict::Refused)
        } else {
            self.is_given_up().then_some(Verdict::RunnerOffline)
        }
    }

    /// Returns whether the machine counts as gone: no connection in this pass, and none for `runner_gone_after` or ever.
    fn is_gone(&self, pass: &Pass, now: UtcMs) -> bool {
        let limit = pass.config().policy.runner_gone_after.0;
        let long_ago = |at| pass.host().waking_since(at, now) >= limit;
        !self.connected.load(Ordering::Relaxed) && self.runner.last_seen_at.is_none_or(long_ago)
    }
}

/// What one runner answered, and when.
#[derive(Debug)]
pub(crate) struct Observed {
    /// The runner as it showed itself in this answer.
    pub(crate) target: Target,
    /// The time right before the question left.
    pub(crate) asked_at: UtcMs,
    /// The same moment on the clock that runs on in sleep: the answer cannot be older.
    asked_elapsed: Ms,
    pub(crate) state: RunnerState,
    pub(crate) why: Option<String>,
    /// No connection could be made.
    unconnected: bool,
    pub(crate) set: TrackedSet,
    index: HashMap<Id, usize>,
}

impl Observed {
    /// Returns the engine that the runner holds for this session, whatever its generation.
    pub(crate) fn engine(&self, id: &Id) -> Option<&TrackedSession> {
        self.index.get(id).map(|at| &self.set.tracked[*at])
    }

    /// Returns whether no stop may rest on the answer any more: this process, or its whole machine, may have stood still
    /// since the question, and a foreign runner would not notice.
    pub(crate) fn is_old(&self, clock: &dyn Clock) -> bool {
        let fresh = if self.target.speaks_protocol { FRESH } else { FRESH_FOREIGN };
        clock.elapsed() - self.asked_elapsed > fresh
    }

    /// Returns whether the answer is a recognisable tracked set.
    pub(crate) fn is_live(&self) -> bool {
        self.state == RunnerState::Live
    }
}

/// Asks every enrolled runner once, side by side.
pub(crate) async fn observe_all(pass: &Pass, runners: Vec<Runner>) -> Result<BTreeMap<Id, Arc<Post>>, StoreError> {
    let limits = &pass.config().limits;
    let asked = futures_util::stream::iter(runners)
        .map(|runner| async move {
            let observed = ask(pass, &runner).await?;
            let runner = pass.store().find_runner(&runner.id).await?.unwrap_or(runner);
            let runner = if pass.request.dry_run { remembering(runner, &observed) } else { runner };
            Ok((runner.id.clone(), Arc::new(Post::new(runner, observed))))
        })
        .buffer_unordered(limits.runners_at_once as usize);
    asked.collect::<Vec<_>>().await.into_iter().collect()
}

/// Returns the runner's row as it would read had this pass been allowed to write.
fn remembering(runner: Runner, observed: &Observed) -> Runner {
    Runner { protocol: observed.set.protocol.or(runner.protocol), ..runner }
}

/// Asks one runner for its tracked set, and remembers what it showed of itself.
async fn ask(pass: &Pass, runner: &Runner) -> Result<Observed, StoreError> {
    let asked = (pass.clock().now(), pass.clock().elapsed());
    let target = Target::from(runner);
    let observation = pass.tools.runners.tracked(&target).await;
    if !pass.request.dry_run {
        remember(pass.store(), &runner.id, &observation, pass.clock().now()).await?;
    }
    Ok(read(observation, &target, asked))
}

fn read(observation: Observation, target: &Target, (asked_at, asked_elapsed): (UtcMs, Ms)) -> Observed {
    let Classified { state, why, unconnected, set, .. } = classify(observation);
    let index = set.tracked.iter().enumerate().map(|(at, engine)| (engine.session_id.clone(), at)).collect();
    let target = target.seen(&set);
    Observed { target, asked_at, asked_elapsed, state, why, unconnected, set, index }
}

/// Returns what this pass knows about the runner of a row, in the policy's terms.
pub(crate) fn view<'a>(
    pass: &Pass,
    session: &Session,
    known: Option<(&Post, &'a Observed)>,
    now: UtcMs,
) -> RunnerView<'a> {
    let Some((post, observed)) = known else {
        return if pass.host().settled { RunnerView::Gone } else { RunnerView::Offline };
    };
    match observed.state {
        RunnerState::Live => match observed.engine(&session.id) {
            Some(engine) if engine.generation.is_none_or(|own| own == session.generation) => {
                RunnerView::Live(Some(engine))
            }
            Some(_) => RunnerView::OtherGeneration,
            None => RunnerView::Live(None),
        },
        RunnerState::Unknown => RunnerView::Unknown,
        RunnerState::Offline if observed.unconnected => {
            if post.is_gone(pass, now) && pass.host().settled {
                RunnerView::Gone
            } else {
                RunnerView::Offline
            }
        }
        _ if post.is_foreign() => RunnerView::Ask,
        RunnerState::Offline => RunnerView::Offline,
        RunnerState::Unrecognised | RunnerState::Unauthorised => RunnerView::Unrecognised,
    }
}

/// Returns how each runner answered, for the report.
pub(crate) async fn runner_reports(posts: impl Iterator<Item = &Arc<Post>>) -> Vec<RunnerReport> {
    let mut reports = Vec::new();
    for post in posts {
        reports.push(runner_report(post, &*post.latest().await));
    }
    reports
}

pub(crate) fn runner_report(post: &Post, observed: &Observed) -> RunnerReport {
    RunnerReport { runner_id: post.runner.id.clone(), state: observed.state, why: observed.why.clone() }
}
