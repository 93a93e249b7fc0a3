//! The acts of a pass: ask a runner to stop an engine, close a row, and tell the runner that it may forget.
//!
//! The order is the crash rule. The runner puts the reason on its disk and stops the engine; then row, entry and item are
//! committed together; only then is the runner told to forget. Killed anywhere in between, the next pass reads the
//! runner's record and finishes with the original reason.

use crate::entry::NewEntry;
use crate::protocol::{EndMode, EndOutcome, EndRequest, Ended, ForgetRequest};
use crate::report::{Action, Item, PartName};
use crate::runner_client::{StopAnswer, StopCall, Target};
use crate::session::{Id, Session};
use crate::store::{Close, Closed, Guard, StoreError, SweepItem};
use crate::sweep::observe::Observed;
use crate::sweep::pass::Pass;
use crate::time::UtcMs;
use crate::timeline::{self, Grounds};
use crate::verdict::Verdict;

/// Asks a runner to stop the engine of `generation`, on the session's condition.
///
/// What must be true before: the policy nominated the session on a row that was read after `observed`, and the reaper is
/// not paused. What protects the engine all the same: the runner checks the condition, the generation and the age of the
/// stamp under its own lock. A foreign runner cannot, so it is asked only right after its set was read.
pub(crate) async fn stop(
    pass: &Pass,
    observed: &Observed,
    session: &Session,
    generation: i64,
    reason: Verdict,
) -> StopAnswer {
    let request = EndRequest {
        session_id: session.id.clone(),
        generation,
        mode: EndMode::IfIdle,
        limits: Some(pass.config().policy.stop_limits(session.idle_after_ms)),
        stamp: observed.set.stamp.clone(),
        reason: reason.to_string(),
        sweep_id: Some(pass.id.clone()),
        owner_id: None,
    };
    let began = pass.clock().awake();
    let call = StopCall { request, set_recognised: observed.is_live() && observed.engine(&session.id).is_none() };
    let answer = pass.tools.runners.end(&observed.target, &call).await;
    pass.tools.metrics.record_stop(pass.clock().awake() - began);
    answer
}

/// Returns what is known of a session and its engine from an answer, for the evidence.
pub(crate) fn grounds<'a>(pass: &Pass, session: &'a Session, observed: &Observed) -> Grounds<'a> {
    let runner_idle_ms = observed.engine(&session.id).and_then(|engine| engine.state.idle_ms.value());
    let window_ms = session.idle_after_ms.or(Some(pass.config().policy.idle_after.0));
    Grounds { epoch: observed.set.epoch, runner_idle_ms, window_ms, ..Grounds::of(session) }
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
    let closed = pass.store().close_session(&close).await?;
    match closed {
        Closed::Done => forget(pass, &session.runner_id, &session.id, ended.generation).await,
        Closed::LostRace => drop(note_stopped(pass, part, &session.runner_id, grounds, ended).await?),
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
        forget(pass, runner, &session.id, ended.generation).await;
    }
    Ok((recorded.is_done(), item))
}

/// Notes the end of an engine that claimed a generation which the row's own runner has: it says nothing about the engine
/// there, so nothing but the entry may follow from it.
async fn note_double(pass: &Pass, runner: &Id, entry: NewEntry, ended: &Ended) -> Result<bool, StoreError> {
    let once = Some(format!("stopped:{}:{runner}", ended.generation));
    let noted = pass.store().add_entry(&NewEntry { once, engine_gone: false, ..entry }).await?;
    forget(pass, runner, &ended.session_id, ended.generation).await;
    Ok(noted)
}

/// Tells a runner that the end of this generation stands in the store. A failure is harmless: the record is listed again.
async fn forget(pass: &Pass, runner: &Id, session: &Id, generation: i64) {
    let Some(post) = pass.posts.get(runner).filter(|post| !post.is_foreign()) else { return };
    let request = ForgetRequest { session_id: session.clone(), generation };
    if let Err(error) = pass.tools.runners.forget(&Target::from(&post.runner), &request).await {
        tracing::debug!(session_id = %session, runner_id = %runner, %error, "the runner was not told to forget");
    }
}

/// Makes the report's line about a session.
pub(crate) fn item(session: &Session, verdict: Verdict, action: Action, message: &str) -> Item {
    Item { session_id: session.id.clone(), verdict, action, message: message.to_owned() }
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
