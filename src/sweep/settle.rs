//! The second half of step 0: what the runners' answers settle before anything else is decided.
//!
//! End records close their rows with the runner's reason; engines at work count as activity; rows that never left
//! `starting` become `active` or are closed as `start_failed`.

use futures_util::future::join_all;

use crate::policy::engine::is_working;
use crate::policy::{StrayCase, start_overdue, stray_case};
use crate::protocol::{EndOutcome, Ended, TrackedSession};
use crate::report::{Action, PartName, PartReport};
use crate::session::{Id, Session};
use crate::store::{Closed, StoreError};
use crate::sweep::act::{self, item};
use crate::sweep::observe::{Observed, Post};
use crate::sweep::pass::Pass;
use crate::verdict::Verdict;

const PART: PartName = PartName::Observe;

/// Settles what the answers of all runners settle, runners side by side.
pub(crate) async fn settle(pass: &Pass) -> Result<PartReport, StoreError> {
    let mut report = PartReport::default();
    for part in join_all(pass.posts.values().map(|post| settle_ends(pass, post))).await {
        report.merge(part?);
    }
    for session in overdue(pass).await? {
        settle_start(pass, &session, &mut report).await?;
    }
    Ok(report)
}

async fn settle_ends(pass: &Pass, post: &Post) -> Result<PartReport, StoreError> {
    let mut report = PartReport::default();
    let observed = post.latest().await;
    for ended in &observed.set.ended {
        finish(pass, (post, &observed), ended, &mut report).await?;
    }
    note_work(pass, post, &observed).await?;
    note_engine_ids(pass, post, &observed).await?;
    Ok(report)
}

/// Finishes what a runner says has ended: closes the row if it is this runner's and of this generation, and otherwise
/// notes that an engine of an earlier time is gone. A record of a session that this store never knew, or of a start that
/// it does not know yet, is left with the runner.
async fn finish(
    pass: &Pass,
    (post, observed): (&Post, &Observed),
    ended: &Ended,
    report: &mut PartReport,
) -> Result<(), StoreError> {
    let Some(session) = pass.store().find_session(&ended.session_id).await? else { return Ok(()) };
    if ended.generation > session.generation {
        return Ok(());
    }
    let fits = session.is_open() && session.runner_id == post.runner.id && ended.generation == session.generation;
    if pass.is_paused().await? {
        report.keep_many(Verdict::Paused, u64::from(fits));
    } else if pass.request.dry_run {
        if fits {
            let verdict = act::verdict_of(ended);
            report.reap(item(&session, verdict, Action::WouldClose, "Would close its row: its engine is gone."));
        }
    } else if !fits {
        act::note_stopped(pass, PART, &post.runner.id, act::grounds(pass, &session, observed), ended).await?;
    } else {
        let grounds = act::grounds(pass, &session, observed);
        match act::close_gone(pass, PART, grounds, EndOutcome::AlreadyStopped, ended).await? {
            (Closed::Done, item) => report.reap(item),
            (Closed::LostRace, _) => report.keep(Verdict::LostRace),
        }
    }
    Ok(())
}

/// Writes that engines are at work, which is activity of kind `engine`, now. An engine that does not fit its row says
/// nothing about the session there.
async fn note_work(pass: &Pass, post: &Post, observed: &Observed) -> Result<(), StoreError> {
    let policy = &pass.config().policy;
    // The longest limits of all rules first, so that only rows of engines that may be at work are read.
    let longest = policy.longest_stop_limits();
    let tracked = observed.set.tracked.iter();
    let working: Vec<Id> =
        tracked.filter(|engine| is_working(&engine.state, &longest)).map(|engine| engine.session_id.clone()).collect();
    if pass.request.dry_run || working.is_empty() {
        return Ok(());
    }
    let fits = |row: &Session| {
        let works = |engine: &TrackedSession| is_working(&engine.state, &policy.limits_of(row).stop());
        let fits = |engine| stray_case(engine, Some(row), &post.runner.id) == StrayCase::Fits;
        observed.engine(&row.id).is_some_and(|engine| works(engine) && fits(engine))
    };
    let rows = pass.store().find_sessions(&working).await?;
    let working: Vec<Id> = rows.into_iter().filter(fits).map(|row| row.id).collect();
    if !working.is_empty() {
        let throttle = pass.config().policy.activity_throttle.0;
        pass.store().note_engine_work(&working, pass.clock().now(), throttle).await?;
    }
    Ok(())
}

/// Writes down the engines' own ids of their conversations, without which no session could be resumed. An engine says its
/// id only in its first turn, and another one after it was cleared.
async fn note_engine_ids(pass: &Pass, post: &Post, observed: &Observed) -> Result<(), StoreError> {
    if pass.request.dry_run {
        return Ok(());
    }
    let said = observed.set.tracked.iter().filter_map(|engine| {
        let own = engine.engine_session_id.clone()?;
        Some((engine.session_id.clone(), engine.generation, own))
    });
    pass.store().note_engine_ids(&post.runner.id, &said.collect::<Vec<_>>()).await?;
    Ok(())
}

/// Reads the rows that are past `start_timeout`, after the answers.
async fn overdue(pass: &Pass) -> Result<Vec<Session>, StoreError> {
    let cutoff = pass.clock().now().minus(pass.config().policy.start_timeout.0);
    pass.store().list_starting(cutoff).await
}

/// Settles a row that never left `starting`: tracked under its generation → `active`; a live runner without it → closed
/// as `start_failed`, if it was overdue already when the question was asked; anything else keeps it.
async fn settle_start(pass: &Pass, session: &Session, report: &mut PartReport) -> Result<(), StoreError> {
    let Some(post) = pass.posts.get(&session.runner_id) else {
        report.keep(Verdict::RunnerOffline);
        return Ok(());
    };
    let observed = post.latest().await;
    if !observed.is_live() {
        report.keep(Verdict::Undetermined);
        return Ok(());
    }
    match observed.engine(&session.id) {
        Some(engine) if engine.generation.is_none_or(|own| own == session.generation) => {
            if !pass.request.dry_run && !pass.is_paused().await? {
                let (generation, now) = (session.generation, pass.clock().now());
                pass.store().mark_active(&session.id, generation, now).await?;
                pass.store().revoke_leases(&session.id, engine.launched_under(generation), now).await?;
            }
            report.keep(Verdict::Tracked);
        }
        Some(_) => report.keep(Verdict::Undetermined),
        None if !start_overdue(session, observed.asked_at, &pass.config().policy) => report.keep(Verdict::NewSession),
        None => close_failed_start(pass, session, &observed, report).await?,
    }
    Ok(())
}

/// Closes a row whose engine never started, or says that it would.
///
/// What must be true before: the row was past `start_timeout` already when its runner was asked, and that runner, live in
/// this pass, lists no engine for the session under any generation. The store checks that the row is as it was read.
async fn close_failed_start(
    pass: &Pass,
    session: &Session,
    observed: &Observed,
    report: &mut PartReport,
) -> Result<(), StoreError> {
    if let Some(verdict) = pass.hold().await? {
        report.keep(verdict);
    } else if pass.request.dry_run {
        let why = "Would close its row: its engine never started.";
        report.reap(item(session, Verdict::StartFailed, Action::WouldClose, why));
    } else {
        let grounds = act::grounds(pass, session, observed);
        match act::close_unchanged(pass, PART, grounds, Verdict::StartFailed, "").await? {
            (Closed::Done, item) => report.reap(item),
            (Closed::LostRace, _) => report.keep(Verdict::LostRace),
        }
    }
    Ok(())
}
