//! Why was this session stopped, or why was it not, and when would it be? Asks runners only read-only questions.

use std::collections::BTreeMap;

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::config::SessionLimits;
use crate::entry::{Entry, EntryKind};
use crate::policy::{Asked, Decision, Finding, orphan};
use crate::protocol::{Ended, TrackedSession};
use crate::report::{RunnerReport, RunnerState, Trigger};
use crate::session::{Id, Session};
use crate::store::{EntryFilter, StoreError};
use crate::sweep::act;
use crate::sweep::observe::{observe_all, runner_report};
use crate::sweep::pass::{Pass, Request};
use crate::sweep::reap::decide_on_latest;
use crate::time::UtcMs;
use crate::tools::Tools;
use crate::verdict::Verdict;

/// What can be said about a session now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Explanation {
    /// Its row.
    pub session: Session,
    /// What a pass would decide now; of an ended session, why it ended.
    pub verdict: String,
    /// Whether a pass would end it now.
    pub reaps: bool,
    /// Every rule that was looked at, with its figures.
    pub findings: Vec<Finding>,
    /// The rule of `[[policy.rule]]` that gives an open session its limits; none when no one matches.
    pub rule: Option<String>,
    /// The limits that hold for an open session; what held for one that has ended stands in its entries.
    pub limits: Option<SessionLimits>,
    /// When it would be reaped if nothing happens; none when that cannot be told.
    pub due_at: Option<UtcMs>,
    /// The reaper is paused: nothing is reaped whatever the verdict.
    pub paused: bool,
    /// How its runner answers; none when it is not enrolled.
    pub runner: Option<RunnerReport>,
    /// Its engine as the runner describes it.
    #[schema(value_type = Option<Object>)]
    pub process: Option<TrackedSession>,
    /// The latest entries that tell of an end, a refusal or a reopening, newest first.
    pub entries: Vec<Entry>,
}

/// How many entries are looked through for those that explain.
const LOOK_BACK: u32 = 50;

/// Explains a session; none when there is no such session.
///
/// # Errors
/// When the store cannot be read.
pub async fn explain(tools: &Tools, id: &Id) -> Result<Option<Explanation>, StoreError> {
    let request = Request { dry_run: true, ..Request::all(Trigger::Manual) };
    let mut pass = super::prepare(tools, request, CancellationToken::new()).await?;
    let Some(session) = tools.store.find_session(id).await? else { return Ok(None) };
    let runners = tools.store.find_runner(&session.runner_id).await?;
    pass.posts = match session.is_open() {
        true => observe_all(&pass, runners.into_iter().collect()).await?,
        false => BTreeMap::new(),
    };
    let entries = telling_entries(tools, id).await?;
    let paused = pass.is_paused().await?;
    Ok(Some(if session.is_open() {
        open(&pass, session, entries, paused).await
    } else {
        ended(session, entries, paused)
    }))
}

async fn open(pass: &Pass, session: Session, entries: Vec<Entry>, paused: bool) -> Explanation {
    let decision = match settled(pass, &session).await {
        Some(decision) => decision,
        None => decide_on_latest(pass, &session).await,
    };
    let policy = &pass.config().policy;
    let (mut runner, mut process) = (None, None);
    if let Some(post) = pass.posts.get(&session.runner_id) {
        let observed = post.latest().await;
        runner = Some(runner_report(post, &observed));
        process = observed.engine(&session.id).cloned();
    }
    Explanation {
        verdict: decision.verdict.to_string(),
        reaps: decision.reaps(),
        due_at: if decision.reaps() { Some(pass.clock().now()) } else { decision.due_at() },
        findings: decision.findings,
        rule: policy.rule_of(&session).map(|rule| rule.name.clone()),
        limits: Some(policy.limits_of(&session)),
        paused,
        runner,
        process,
        entries,
        session,
    }
}

/// Returns the decision that needs no rule about idleness, if that is what the next pass would do: the runner says that
/// the engine has ended, or holds none.
async fn settled(pass: &Pass, session: &Session) -> Option<Decision> {
    let observed = pass.posts.get(&session.runner_id)?.latest().await;
    let fits = |ended: &&Ended| ended.session_id == session.id && ended.generation == session.generation;
    if let Some(ended) = observed.set.ended.iter().find(fits) {
        return Some(Decision { verdict: act::verdict_of(ended), findings: Vec::new(), limit_ms: None });
    }
    let asked = Asked { at: observed.asked_at, tracked: observed.engine(&session.id).is_some() };
    let decision = orphan(session, asked, &pass.config().policy);
    (observed.state == RunnerState::Live && decision.verdict == Verdict::Orphaned).then_some(decision)
}

fn ended(session: Session, entries: Vec<Entry>, paused: bool) -> Explanation {
    Explanation {
        verdict: session.end_reason.clone().unwrap_or_else(|| Verdict::Undetermined.to_string()),
        reaps: false,
        findings: Vec::new(),
        rule: None,
        limits: None,
        due_at: None,
        paused,
        runner: None,
        process: None,
        entries,
        session,
    }
}

async fn telling_entries(tools: &Tools, id: &Id) -> Result<Vec<Entry>, StoreError> {
    let filter =
        EntryFilter { session: Some(id.clone()), newest_first: true, limit: Some(LOOK_BACK), ..EntryFilter::default() };
    let tells = |entry: &Entry| {
        let kinds = [EntryKind::Ended, EntryKind::Stopped, EntryKind::Refused, EntryKind::Reopened, EntryKind::Kept];
        kinds.contains(&entry.kind)
    };
    Ok(tools.store.list_timeline(&filter).await?.into_iter().filter(tells).collect())
}
