//! Part `orphans`: close open rows whose live runner holds no engine for them.
//!
//! A row is a target if and only if its runner answered in this pass with a recognisable tracked set, that set does not
//! list the session, and the row is past `orphan_grace` and `orphan_quiet` at the time of the question. An empty set is a
//! real answer; anything unrecognisable skips the runner. No engine is called: there is none.

use futures_util::future::join_all;

use crate::policy::{Asked, orphan};
use crate::report::{Action, Item, PartName, PartReport, RunnerState};
use crate::session::{Id, Session};
use crate::store::{Closed, StoreError};
use crate::sweep::act::{self, item};
use crate::sweep::observe::{Observed, Post};
use crate::sweep::pass::Pass;
use crate::verdict::Verdict;

/// Runs the part, runners side by side.
pub(crate) async fn sweep(pass: &Pass) -> Result<PartReport, StoreError> {
    let mut report = PartReport::default();
    for part in join_all(pass.posts.values().map(|post| orphans_of(pass, post))).await {
        report.merge(part?);
    }
    Ok(report)
}

async fn orphans_of(pass: &Pass, post: &Post) -> Result<PartReport, StoreError> {
    let mut report = PartReport::default();
    let observed = post.latest().await;
    match skipped_as(observed.state) {
        Some(verdict) => keep_all(pass, post, verdict, &mut report).await?,
        None => reconcile(pass, post, &observed, &mut report).await?,
    }
    Ok(report)
}

/// Returns the word under which every row of a runner is kept that did not answer with a tracked set.
fn skipped_as(state: RunnerState) -> Option<Verdict> {
    match state {
        RunnerState::Live => None,
        RunnerState::Unrecognised | RunnerState::Unauthorised => Some(Verdict::TrackedUnrecognised),
        RunnerState::Offline => Some(Verdict::RunnerOffline),
        RunnerState::Unknown => Some(Verdict::RunnerUnknown),
    }
}

/// Keeps every open row of a runner under one word; a dry run names each.
async fn keep_all(pass: &Pass, post: &Post, verdict: Verdict, report: &mut PartReport) -> Result<(), StoreError> {
    let runner = &post.runner.id;
    if !pass.request.dry_run {
        report.keep_many(verdict, pass.store().count_open(runner).await?);
        return Ok(());
    }
    for session in pass.store().list_untracked(runner, &[]).await? {
        report.keep_item(kept(&session, verdict));
    }
    Ok(())
}

fn kept(session: &Session, verdict: Verdict) -> Item {
    item(session, verdict, Action::Kept, &act::kept(verdict))
}

/// Compares the rows of a live runner with its tracked set. The rows are read after the answer.
async fn reconcile(pass: &Pass, post: &Post, observed: &Observed, report: &mut PartReport) -> Result<(), StoreError> {
    if pass.request.dry_run {
        for session in pass.store().list_untracked(&post.runner.id, &[]).await? {
            close_if_orphaned(pass, &session, observed, report).await?;
        }
        return Ok(());
    }
    let tracked: Vec<Id> = observed.set.tracked.iter().map(|engine| engine.session_id.clone()).collect();
    let untracked = pass.store().list_untracked(&post.runner.id, &tracked).await?;
    let open = pass.store().count_open(&post.runner.id).await?;
    report.keep_many(Verdict::Tracked, open.saturating_sub(untracked.len() as u64));
    for session in untracked {
        close_if_orphaned(pass, &session, observed, report).await?;
    }
    Ok(())
}

/// Closes one row, if the policy calls it an orphan, or says that it would.
///
/// The policy compares with the time of the question, and the store checks that the row is still as it was read, so
/// nothing that came after the question can be lost.
async fn close_if_orphaned(
    pass: &Pass,
    session: &Session,
    observed: &Observed,
    report: &mut PartReport,
) -> Result<(), StoreError> {
    let asked = Asked { at: observed.asked_at, tracked: observed.engine(&session.id).is_some() };
    let decision = orphan(session, asked, &pass.config().policy);
    let keeps = if decision.reaps() { pass.hold().await? } else { Some(decision.verdict) };
    match keeps {
        Some(verdict) if pass.request.dry_run => report.keep_item(kept(session, verdict)),
        Some(verdict) => report.keep(verdict),
        None if pass.request.dry_run => {
            let message = format!("Would close its row: {}.", decision.verdict.meaning());
            report.reap(item(session, decision.verdict, Action::WouldClose, &message));
        }
        None => {
            let grounds = act::grounds(pass, session, observed).with(&decision);
            match act::close_unchanged(pass, PartName::Orphans, grounds, decision.verdict, "").await? {
                (Closed::Done, item) => report.reap(item),
                (Closed::LostRace, _) => report.keep(Verdict::LostRace),
            }
        }
    }
    Ok(())
}
