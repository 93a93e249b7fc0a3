//! Part `strays`: stop engines whose row is ended, names another runner, or is of a later generation by now.
//!
//! An engine is a target if and only if a live runner tracks it, this store knows its session, and the row does not fit
//! it. It is stopped under the idle condition only, and never when it is ahead of its row (as after a restored store). An
//! engine whose session this store never knew may belong to another control plane: it is left alone and shown.

use futures_util::StreamExt;
use futures_util::future::join_all;

use crate::policy::engine::EngineSays;
use crate::policy::{StrayCase, stray_case, stray_may_stop};
use crate::protocol::{Because, TrackedSession};
use crate::report::{Action, Fate, Item, PartName, PartReport};
use crate::runner_client::StopAnswer;
use crate::session::{Id, Session};
use crate::store::{Reopened, StoreError};
use crate::sweep::act::{self, item, stored};
use crate::sweep::observe::{Observed, Post};
use crate::sweep::pass::Pass;
use crate::timeline;
use crate::verdict::Verdict;

const PART: PartName = PartName::Strays;

/// Runs the part, runners side by side.
pub(crate) async fn sweep(pass: &Pass) -> Result<PartReport, StoreError> {
    let mut report = PartReport::default();
    for fates in join_all(pass.posts.values().map(|post| strays_of(pass, post))).await {
        for (id, fate) in fates? {
            report.count(id, fate?);
        }
    }
    Ok(report)
}

/// Handles the engines of one runner that do not fit their rows, several at once.
async fn strays_of(pass: &Pass, post: &Post) -> Result<Vec<(Id, Result<Fate, StoreError>)>, StoreError> {
    let observed = post.latest().await;
    let tracked: Vec<(Id, Option<i64>)> =
        observed.set.tracked.iter().map(|engine| (engine.session_id.clone(), engine.generation)).collect();
    let mismatched = pass.store().list_mismatched(&post.runner.id, &tracked).await?;
    let observed = &observed;
    let fates = futures_util::stream::iter(mismatched)
        .map(|(id, row)| async move {
            let engine = observed.engine(&id)?;
            if row.as_ref().is_some_and(|row| is_newer(row, observed)) {
                return None;
            }
            let fate = look_at(pass, post, engine, row.as_ref()).await.transpose()?;
            Some((id, fate))
        })
        .buffer_unordered(pass.config().limits.stops_per_runner as usize);
    Ok(fates.collect::<Vec<_>>().await.into_iter().flatten().collect())
}

/// Returns whether the row was closed, or its engine started anew, after the runner was asked: then the answer tells of
/// an engine as it was before, which this very pass may have stopped.
fn is_newer(row: &Session, observed: &Observed) -> bool {
    [row.ended_at, row.attached_at].into_iter().flatten().any(|at| at >= observed.asked_at)
}

/// Decides about one engine; none when it fits its row by now.
async fn look_at(
    pass: &Pass,
    post: &Post,
    engine: &TrackedSession,
    row: Option<&Session>,
) -> Result<Option<Fate>, StoreError> {
    let runner = &post.runner.id;
    let kept = |message: String| {
        let session_id = engine.session_id.clone();
        Fate::Shown(Item { session_id, verdict: Verdict::Undetermined, action: Action::Kept, message })
    };
    Ok(match (stray_case(engine, row, runner), row) {
        (StrayCase::Fits, _) => None,
        (StrayCase::Closed | StrayCase::Elsewhere, Some(row)) => Some(reap(pass, post, row).await?),
        (StrayCase::Ahead, _) => Some(kept(format!(
            "Kept: runner {runner} holds a later start of this session than the store knows; was the store restored from a backup?"
        ))),
        (StrayCase::NeverKnown | StrayCase::Closed | StrayCase::Elsewhere, _) => Some(kept(format!(
            "Left alone: runner {runner} holds an engine for a session that this store never knew; it may belong to another Sexton."
        ))),
    })
}

/// Stops one stray, if its own runner agrees that nobody uses it.
///
/// What must be true before a stop is asked for: on an answer that is fresh, the row, read after it and not changed since
/// the question, does not fit the engine; the engine's own state allows a stop, or its runner will check that itself; nobody asked to keep the session;
/// the process is not ending, the reaper not paused, and no brake holds.
async fn reap(pass: &Pass, post: &Post, row: &Session) -> Result<Fate, StoreError> {
    let observed = if pass.request.dry_run { post.latest().await } else { post.fresh(pass).await? };
    let (Some(engine), Some(row)) = (observed.engine(&row.id), pass.store().find_session(&row.id).await?) else {
        return Ok(Fate::Kept(Verdict::LostRace));
    };
    let case = stray_case(engine, Some(&row), &post.runner.id);
    if !matches!(case, StrayCase::Closed | StrayCase::Elsewhere) || is_newer(&row, &observed) {
        return Ok(Fate::Kept(Verdict::LostRace));
    }
    let says = stray_may_stop(engine, &row, &pass.config().policy, pass.clock().now());
    if let Some(verdict) = brake(pass, (post, &observed), &row).await? {
        return Ok(kept(pass, &row, verdict));
    }
    if pass.request.dry_run {
        return Ok(would_reap(&post.runner.id, &row, says));
    }
    match says {
        EngineSays::Undetermined => Ok(Fate::Kept(Verdict::Undetermined)),
        EngineSays::Protected { because, .. } if post.is_foreign() => {
            in_use(pass, (post, &observed), (case, &row), because).await
        }
        EngineSays::Protected { .. } | EngineSays::MayStop(_) => {
            let generation = engine.generation.unwrap_or(row.generation);
            stop(pass, (post, &observed), (case, &row), generation).await
        }
    }
}

/// Keeps a stray; a dry run shows it.
fn kept(pass: &Pass, row: &Session, verdict: Verdict) -> Fate {
    match pass.request.dry_run {
        true => Fate::Shown(item(row, verdict, Action::Kept, &format!("Kept: {verdict}."))),
        false => Fate::Kept(verdict),
    }
}

/// Returns the verdict that keeps a stray whatever its engine says.
///
/// Somebody who claimed to drive the session counts here as in the idle rule: its row may have been closed as an orphan
/// since, and a runner that tells no silence has not heard of the claim.
async fn brake(
    pass: &Pass,
    (post, observed): (&Post, &Observed),
    row: &Session,
) -> Result<Option<Verdict>, StoreError> {
    let now = pass.clock().now();
    let window = row.idle_after_ms.unwrap_or(pass.config().policy.idle_after.0);
    Ok(if pass.cancel.is_cancelled() {
        Some(Verdict::Limit)
    } else if pass.is_paused().await? {
        Some(Verdict::Paused)
    } else if row.keep_until.is_some_and(|until| until > now) {
        Some(Verdict::KeptByRequest)
    } else if row.driver_at.is_some_and(|at| now.since(at) < window) {
        Some(Verdict::DriverClaimed)
    } else if !pass.request.dry_run && observed.is_old(pass.clock()) {
        Some(Verdict::Undetermined)
    } else if post.is_foreign() && pass.host.jumped {
        Some(Verdict::ClockUnsettled)
    } else if post.is_foreign() && post.runner.require_conditional_stop {
        Some(Verdict::Refused)
    } else {
        post.is_given_up().then_some(Verdict::RunnerOffline)
    })
}

async fn stop(
    pass: &Pass,
    (post, observed): (&Post, &Observed),
    (case, row): (StrayCase, &Session),
    generation: i64,
) -> Result<Fate, StoreError> {
    let runner = &post.runner.id;
    Ok(match act::stop(pass, observed, row, generation, Verdict::Stray).await {
        StopAnswer::Stopped(ended) | StopAnswer::AlreadyStopped(ended) => {
            match act::note_stopped(pass, PART, runner, act::grounds(pass, row, observed), &ended).await? {
                (true, item) => Fate::Reaped(item),
                (false, _) => Fate::Kept(Verdict::LostRace),
            }
        }
        StopAnswer::NotTracked => Fate::Kept(Verdict::LostRace),
        StopAnswer::Refused { because: Some(Because::Generation), .. }
            if pass.store().has_stopped(&row.id, generation).await? =>
        {
            Fate::Kept(Verdict::LostRace)
        }
        StopAnswer::Refused { because: Some(because), .. } => {
            in_use(pass, (post, observed), (case, row), because).await?
        }
        StopAnswer::Refused { because: None, idle_ms, .. } => refused(row, &timeline::refusal(runner, None, idle_ms)),
        StopAnswer::Accepted => {
            Fate::Failed(format!("runner {runner} has begun to stop the engine and has not finished yet"))
        }
        StopAnswer::Failed(why) => Fate::Failed(format!("runner {runner} did not stop the engine: {why}")),
        StopAnswer::NoAnswer(why) => {
            post.gave_no_answer();
            Fate::Failed(format!("runner {runner} did not stop the engine: {why}"))
        }
    })
}

/// Opens the row of a stray again that turned out to be in use, where its place is still free; shows it otherwise.
async fn in_use(
    pass: &Pass,
    (post, observed): (&Post, &Observed),
    (case, row): (StrayCase, &Session),
    because: Because,
) -> Result<Fate, StoreError> {
    let now = pass.clock().now();
    if case != StrayCase::Closed || matches!(because, Because::Generation | Because::Stale) {
        return Ok(refused(row, &timeline::refusal(&post.runner.id, Some(because), None)));
    }
    let entry = timeline::reopened(act::grounds(pass, row, observed), because, &pass.actor(), now);
    let line = item(row, Verdict::Refused, Action::Reopened, &entry.message);
    Ok(match pass.store().reopen_session(row, now, &entry, Some(&stored(pass, PART, &line, now))).await? {
        Reopened::Done => Fate::Shown(line),
        Reopened::Taken => {
            refused(row, "Kept: the engine is in use, and its owner has another open session in that repo.")
        }
        Reopened::AlreadyStopped => {
            refused(row, "Kept: the engine is in use, though its runner said before that it was gone.")
        }
        Reopened::LostRace => Fate::Kept(Verdict::LostRace),
    })
}

fn refused(row: &Session, message: &str) -> Fate {
    Fate::Shown(item(row, Verdict::Refused, Action::Kept, message))
}

fn would_reap(runner: &Id, row: &Session, says: EngineSays) -> Fate {
    match says {
        EngineSays::MayStop(_) => {
            Fate::Reaped(item(row, Verdict::Stray, Action::WouldStop, "Would stop its engine: stray."))
        }
        EngineSays::Protected { because, .. } => refused(row, &timeline::refusal(runner, Some(because), None)),
        EngineSays::Undetermined => {
            Fate::Shown(item(row, Verdict::Undetermined, Action::Kept, "Kept: its state cannot be told."))
        }
    }
}
