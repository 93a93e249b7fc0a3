//! The acts of a pass: ask a runner to stop an engine, close a row, and tell the runner that it may forget.
//!
//! The order is the crash rule. The runner puts the reason on its disk and stops the engine; then row, entry and item are
//! committed together; only then is the runner told to forget. Killed anywhere in between, the next pass reads the
//! runner's record and finishes with the original reason.

use std::sync::PoisonError;

use futures_util::future::join_all;

use crate::entry::NewEntry;
use crate::protocol::{EndMode, EndOutcome, EndRequest, Ended, ForgetRequest};
use crate::report::{Action, Item, PartName};
use crate::runner_client::{NoAnswer, StopAnswer, StopCall, Target};
use crate::session::{Id, Session};
use crate::store::{Close, Closed, Guard, StoreError, SweepItem};
use crate::sweep::observe::{Observed, Post};
use crate::sweep::pass::{Pass, Settled};
use crate::time::UtcMs;
use crate::timeline::{self, Grounds};
use crate::verdict::Verdict;

/// Asks a runner to stop the engine of `generation`, on the session's condition; or returns the verdict that keeps it.
///
/// What must be true before: the policy nominated the session on a row that was read after `observed`. What is made sure
/// of here, with a turn among the stops in flight at hand: the process is not ending, the reaper not paused, and the
/// answer young. What protects the engine all the same: the runner checks the condition, the generation and the age of
/// the stamp under its own lock. A foreign runner cannot, so its answer must be seconds old.
pub(crate) async fn stop(
    pass: &Pass,
    observed: &Observed,
    session: &Session,
    generation: i64,
    reason: Verdict,
) -> Result<Result<StopAnswer, Verdict>, StoreError> {
    let Ok(_turn) = pass.stops.acquire().await else { return Ok(Err(Verdict::Limit)) };
    if let Some(verdict) = pass.hold().await? {
        return Ok(Err(verdict));
    }
    if observed.is_old(pass.clock()) {
        return Ok(Err(Verdict::Undetermined));
    }
    let request = EndRequest {
        session_id: session.id.clone(),
        generation,
        mode: EndMode::IfIdle,
        limits: Some(pass.config().policy.limits_of(session).stop()),
        stamp: observed.set.stamp.clone(),
        reason: reason.to_string(),
        sweep_id: Some(pass.id.clone()),
        owner_id: None,
    };
    let began = pass.clock().awake();
    let call = StopCall { request, set_recognised: observed.is_live() && observed.engine(&session.id).is_none() };
    let answer = pass.tools.runners.end(&observed.target, &call).await;
    pass.tools.metrics.record_stop(pass.clock().awake() - began);
    Ok(Ok(answer))
}

/// Returns what is known of a session and its engine from an answer, for the evidence.
pub(crate) fn grounds<'a>(pass: &'a Pass, session: &'a Session, observed: &Observed) -> Grounds<'a> {
    let runner_idle_ms = observed.engine(&session.id).and_then(|engine| engine.state.idle_ms.value());
    Grounds { epoch: observed.set.epoch, runner_idle_ms, ..unobserved_grounds(pass, session) }
}

/// Returns what is known of a session whose runner was not asked, for the evidence.
pub(crate) fn unobserved_grounds<'a>(pass: &'a Pass, session: &'a Session) -> Grounds<'a> {
    let policy = &pass.config().policy;
    let window_ms = Some(policy.limits_of(session).idle_after_ms);
    let policy_rule = policy.rule_of(session).map(|rule| rule.name.as_str());
    Grounds { window_ms, policy_rule, ..Grounds::of(session) }
}

/// Closes the row of an engine that its runner says is gone, with the runner's reason, and then lets the runner forget.
///
/// What must be true before: the runner answered a stop with `stopped` or `already_stopped`, or lists an end record, for
/// this session and generation. The store checks that the row is still open and still of this generation; a row that
/// was closed or moved on meanwhile gets an entry that its engine is gone, unless it has one.
pub(crate) async fn close_gone(
    pass: &Pass,
    part: PartName,
    grounds: Grounds<'_>,
    outcome: EndOutcome,
    ended: &Ended,
) -> Result<(Closed, Item), StoreError> {
    let (now, session) = (pass.clock().now(), grounds.session);
    let entry = timeline::engine_gone(grounds, outcome, ended, &pass.actor(), now);
    let item = item(session, verdict_of(ended), Action::Stopped, &entry.message);
    let close = Close {
        session,
        at: now,
        reason: &ended.reason,
        guard: Guard::EngineGone,
        entry: &entry,
        item: Some(&stored(pass, part, &item, now)),
    };
    pass.store().note_last_engine_id(&session.runner_id, ended).await?;
    let closed = pass.store().close_session(&close).await?;
    match closed {
        Closed::Done => forget_later(pass, &session.runner_id, &session.id, ended.generation),
        Closed::LostRace => {
            note_stopped(pass, part, &session.runner_id, grounds, ended).await?;
        }
    }
    Ok((closed, item))
}

/// Returns the word under which the end of an engine is reported: the runner's reason, or `exited`.
pub(crate) fn verdict_of(ended: &Ended) -> Verdict {
    ended.reason.parse().ok().filter(|word: &Verdict| word.ends()).unwrap_or(Verdict::Exited)
}

/// Closes a row without a stop: as `orphaned`, `machine_gone` or `start_failed`.
///
/// What must be true before: the policy decided so on this very row, and what it decided on was read after the runner's
/// latest answer. The store checks that the row is open and has not changed in any way since it was read.
pub(crate) async fn close_unchanged(
    pass: &Pass,
    part: PartName,
    grounds: Grounds<'_>,
    verdict: Verdict,
    why: &str,
) -> Result<(Closed, Item), StoreError> {
    let (now, session) = (pass.clock().now(), grounds.session);
    let entry = timeline::closed_without_stop(grounds, verdict, why, &pass.actor(), now);
    let item = item(session, verdict, Action::Closed, &entry.message);
    let close = Close {
        session,
        at: now,
        reason: verdict.as_str(),
        guard: Guard::Unchanged,
        entry: &entry,
        item: Some(&stored(pass, part, &item, now)),
    };
    Ok((pass.store().close_session(&close).await?, item))
}

/// Notes that an engine of `runner` is gone whose row had ended or moved on, and then lets the runner forget; closes
/// nothing. Returns whether this call wrote the entry.
pub(crate) async fn note_stopped(
    pass: &Pass,
    part: PartName,
    runner: &Id,
    grounds: Grounds<'_>,
    ended: &Ended,
) -> Result<(bool, Item), StoreError> {
    let (now, session) = (pass.clock().now(), grounds.session);
    let entry = timeline::stray_stopped(grounds, runner, ended, &pass.actor(), now);
    let item = item(session, Verdict::Stray, Action::Stopped, &entry.message);
    if *runner != session.runner_id && ended.generation >= session.generation {
        return Ok((note_double(pass, runner, entry, ended).await?, item));
    }
    let stored = stored(pass, part, &item, now);
    let recorded = pass.store().record_stopped(&session.id, ended.generation, &entry, Some(&stored)).await?;
    if recorded.may_forget() {
        forget_later(pass, runner, &session.id, ended.generation);
    }
    Ok((recorded.is_done(), item))
}

/// Notes the end of an engine that claimed a generation which the row's own runner has: it says nothing about the engine
/// there, so nothing but the entry may follow from it.
async fn note_double(pass: &Pass, runner: &Id, entry: NewEntry, ended: &Ended) -> Result<bool, StoreError> {
    let once = Some(format!("stopped:{}:{runner}", ended.generation));
    let noted = pass.store().add_entry(&NewEntry { once, engine_gone: false, ..entry }).await?;
    forget_later(pass, runner, &ended.session_id, ended.generation);
    Ok(noted)
}

/// Notes that the end of this generation stands in the store, so that its runner can be told to forget it.
fn forget_later(pass: &Pass, runner: &Id, session: &Id, generation: i64) {
    let settled = Settled { runner: runner.clone(), session: session.clone(), generation };
    pass.settled.lock().unwrap_or_else(PoisonError::into_inner).push(settled);
}

/// Tells the runners, side by side, which ends they need not remember any longer. It is the last thing of a pass, so that
/// a runner that hangs here delays nothing; a failure is harmless, since the record is listed again.
pub(crate) async fn forget_all(pass: &Pass) {
    let settled = std::mem::take(&mut *pass.settled.lock().unwrap_or_else(PoisonError::into_inner));
    let posts = pass.posts.values().filter(|post| !post.is_foreign());
    join_all(posts.map(|post| {
        let own = settled.iter().filter(|settled| settled.runner == post.runner.id);
        forget_on(pass, post, own)
    }))
    .await;
}

async fn forget_on<'a>(pass: &Pass, post: &Post, settled: impl Iterator<Item = &'a Settled>) {
    let target = Target::from(&post.runner);
    for end in settled {
        let request = ForgetRequest { session_id: end.session.clone(), generation: end.generation };
        let told = pass.tools.runners.forget(&target, &request).await;
        if let Err(error) = &told {
            tracing::debug!(session_id = %end.session, runner_id = %end.runner, %error, "the runner was not told to forget");
        }
        if matches!(told, Err(NoAnswer::Unanswered(_) | NoAnswer::Unconnected(_))) {
            return;
        }
    }
}

/// Makes the report's line about a session.
pub(crate) fn item(session: &Session, verdict: Verdict, action: Action, message: &str) -> Item {
    Item { session_id: session.id.clone(), verdict, action, message: message.to_owned() }
}

/// Says why something is kept.
pub(crate) fn kept(verdict: Verdict) -> String {
    format!("Kept: {}.", verdict.meaning())
}

/// Makes the stored form of a report's line.
pub(crate) fn stored(pass: &Pass, part: PartName, item: &Item, at: UtcMs) -> SweepItem {
    SweepItem {
        sweep_id: pass.id.clone(),
        session_id: item.session_id.clone(),
        part: part.to_string(),
        verdict: item.verdict.to_string(),
        action: item.action.to_string(),
        message: item.message.clone(),
        trigger: pass.request.trigger.to_string(),
        at,
    }
}
