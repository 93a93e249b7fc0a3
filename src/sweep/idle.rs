//! Part `idle`: reap sessions that nothing has touched for their window.
//!
//! A session is a target if and only if its row is open and past its window (its own, else its rule's), and
//! [`policy::idle`] says that nothing keeps it. Engines without a row are left to `strays`, rows without an engine that are not idle to
//! `orphans`.
//!
//! Two steps: nominate in order, oldest first, up to each runner's limit of stops; then, runners side by side and several
//! at once per runner, hand each nominee to `reap.rs`, which reads and decides again before it acts.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use futures_util::future::join_all;

use crate::policy::{self, Decision};
use crate::report::{Action, Fate, Item, PartReport};
use crate::session::{Id, Session};
use crate::store::{Candidate, StoreError};
use crate::sweep::act::{item, kept};
use crate::sweep::pass::Pass;
use crate::sweep::reap::{decide_on_latest, reap};
use crate::sweep::warn;
use crate::time::UtcMs;
use crate::verdict::Verdict;

/// How many candidates are read at once.
const PAGE: u32 = 1_000;

/// A session that the first look would reap.
struct Nominee {
    session: Session,
    decision: Decision,
}

/// The nominees of each runner, oldest first.
type Queues = BTreeMap<Id, Vec<Nominee>>;

/// Runs the part.
pub(crate) async fn sweep(pass: &Pass) -> Result<PartReport, StoreError> {
    let mut report = PartReport::default();
    let queues = nominate(pass, &mut report).await?;
    if pass.request.dry_run {
        queues.into_values().flatten().for_each(|nominee| report.reap(would_reap(&nominee)));
        return Ok(report);
    }
    let fates = join_all(queues.into_values().map(|queue| reap_queue(pass, queue))).await;
    for (id, fate) in fates.into_iter().flatten() {
        report.count(id, fate);
    }
    // Last, so that no reap waits for it.
    warn::warn(pass).await;
    Ok(report)
}

/// Looks at every candidate once, in order, and queues those that nothing keeps.
async fn nominate(pass: &Pass, report: &mut PartReport) -> Result<Queues, StoreError> {
    let mut queues = Queues::new();
    let paused = pass.is_paused().await?;
    let (now, shortest) = (pass.clock().now(), pass.config().policy.shortest_idle_after());
    let mut after = None;
    loop {
        let page = pass.store().list_idle_candidates(now, shortest, after.as_ref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(queues) };
        after = Some(last.cursor());
        for candidate in page.into_iter().filter(|candidate| is_past_its_window(pass, candidate, now)) {
            let session = candidate.session;
            let decision = decide_on_latest(pass, &session).await;
            let queue = queues.entry(session.runner_id.clone()).or_default();
            match first_look(pass, &decision, paused, queue.len()) {
                None => queue.push(Nominee { session, decision }),
                Some(verdict) => {
                    // Past the window of its last use, and kept by a claim, a request or the machine's sleep that ends.
                    warn::consider(pass, &session, &decision).await;
                    keep(pass, report, &session, verdict).await?;
                }
            }
        }
    }
}

/// Returns whether a candidate, found by the shortest window of all rules, is past its own or has no time to tell.
fn is_past_its_window(pass: &Pass, candidate: &Candidate, now: UtcMs) -> bool {
    let (session, policy) = (&candidate.session, &pass.config().policy);
    let past = |at| now.since(at) >= policy.limits_of(session).idle_after_ms;
    candidate.due_at.is_none() || session.last_used().is_none_or(past)
}

/// Returns why a candidate is not queued, if it is not.
fn first_look(pass: &Pass, decision: &Decision, paused: bool, queued: usize) -> Option<Verdict> {
    let most = pass.config().safety.max_stops_per_runner as usize;
    if !decision.reaps() {
        Some(decision.verdict)
    } else if paused {
        Some(Verdict::Paused)
    } else {
        (most > 0 && queued >= most && decision.verdict != Verdict::MachineGone).then_some(Verdict::Limit)
    }
}

async fn keep(pass: &Pass, report: &mut PartReport, session: &Session, verdict: Verdict) -> Result<(), StoreError> {
    if pass.request.dry_run {
        report.keep_item(item(session, verdict, Action::Kept, &kept(verdict)));
        return Ok(());
    }
    if policy::clock_is_unsettled(session, pass.clock().now()) {
        pass.store().clamp_future(&session.id, pass.clock().now()).await?;
    }
    report.keep(verdict);
    Ok(())
}

fn would_reap(nominee: &Nominee) -> Item {
    let verdict = nominee.decision.verdict;
    let (action, what) = if matches!(verdict, Verdict::MachineGone | Verdict::Orphaned) {
        (Action::WouldClose, "close its row")
    } else {
        (Action::WouldStop, "stop its engine and close its row")
    };
    item(&nominee.session, verdict, action, &format!("Would {what}: {}.", verdict.meaning()))
}

async fn reap_queue(pass: &Pass, queue: Vec<Nominee>) -> Vec<(Id, Fate)> {
    let at_once = pass.config().limits.stops_per_runner as usize;
    futures_util::stream::iter(queue)
        .map(|nominee| async move { (nominee.session.id.clone(), reap(pass, &nominee.session).await) })
        .buffer_unordered(at_once)
        .collect()
        .await
}
