//! Part `strays`: stop engines whose row is ended, names another runner, or is of a later generation by now.
//!
//! An engine is a target if and only if a live runner tracks it, this store knows its session, and the row does not fit
//! it. It is stopped under the idle condition only, and never when it is ahead of its row (as after a restored store). An
//! engine whose session this store never knew may belong to another control plane: it is left alone and shown.

use futures_util::StreamExt;
use futures_util::future::join_all;

use crate::policy::engine::EngineSays;
use crate::policy::{self, Decision, StrayCase, Surroundings, stray_case};
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

/// An engine that does not fit its row, on the answer that shows it.
#[derive(Clone, Copy)]
struct Stray<'a> {
    post: &'a Post,
    observed: &'a Observed,
    engine: &'a TrackedSession,
    case: StrayCase,
    row: &'a Session,
}

/// Stops one stray, if its own runner agrees that nobody uses it.
///
/// What must be true before a stop is asked for: on an answer that is fresh, the row, read after it and not changed since
/// the question, does not fit the engine; the engine's own state allows a stop, or its runner will check that itself;
/// nobody asked to keep the session or claimed to drive it, and no brake holds; and what [`act::stop`] makes sure of.
async fn reap(pass: &Pass, post: &Post, row: &Session) -> Result<Fate, StoreError> {
    let observed = if pass.request.dry_run { post.latest().await } else { post.fresh(pass).await? };
    let (Some(engine), Some(row)) = (observed.engine(&row.id), pass.store().find_session(&row.id).await?) else {
        return Ok(Fate::Kept(Verdict::LostRace));
    };
    let case = stray_case(engine, Some(&row), &post.runner.id);
    if !matches!(case, StrayCase::Closed | StrayCase::Elsewhere) || is_newer(&row, &observed) {
        return Ok(Fate::Kept(Verdict::LostRace));
    }
    let now = pass.clock().now();
    let asleep_ms = if engine.state.idle_ms.value().is_some() { 0 } else { pass.asleep(&row, now) };
    let around = Surroundings { brake: post.brake(pass), asleep_ms };
    let judged = policy::stray(engine, &row, around, &pass.config().policy, now);
    let held = if judged.held.is_some() { judged.held } else { pass.hold().await? };
    if let Some(verdict) = held {
        return Ok(keep(pass, &row, verdict));
    }
    let stray = Stray { post, observed: &observed, engine, case, row: &row };
    if pass.request.dry_run {
        return Ok(would_reap(stray, judged.says));
    }
    match judged.says {
        EngineSays::Undetermined => Ok(Fate::Kept(Verdict::Undetermined)),
        EngineSays::Protected { because, .. } if post.is_foreign() => in_use(pass, stray, because).await,
        EngineSays::Protected { .. } | EngineSays::MayStop(_) => stop(pass, stray, &judged.decision).await,
    }
}

/// Keeps a stray; a dry run shows it.
fn keep(pass: &Pass, row: &Session, verdict: Verdict) -> Fate {
    match pass.request.dry_run {
        true => Fate::Shown(item(row, verdict, Action::Kept, &act::kept(verdict))),
        false => Fate::Kept(verdict),
    }
}

/// Asks for the stop of a stray, under what [`reap`] has made sure of, and does what the answer asks for.
async fn stop(pass: &Pass, stray: Stray<'_>, decision: &Decision) -> Result<Fate, StoreError> {
    let Stray { post, observed, engine, row, .. } = stray;
    let (runner, generation) = (&post.runner.id, engine.generation.unwrap_or(row.generation));
    let answer = match act::stop(pass, observed, row, generation, Verdict::Stray).await? {
        Ok(answer) => answer,
        Err(verdict) => return Ok(Fate::Kept(verdict)),
    };
    Ok(match answer {
        StopAnswer::Stopped(ended) | StopAnswer::AlreadyStopped(ended) => {
            let grounds = act::grounds(pass, row, observed).with(decision);
            match act::note_stopped(pass, PART, runner, grounds, &ended).await? {
                (true, item) => Fate::Reaped(item),
                (false, _) => Fate::Kept(Verdict::LostRace),
            }
        }
        StopAnswer::NotTracked => Fate::Kept(Verdict::LostRace),
        // Another process had it stopped and let the runner forget.
        StopAnswer::Refused { because: Some(Because::Generation), .. }
            if pass.store().has_stopped(&row.id, generation).await? =>
        {
            Fate::Kept(Verdict::LostRace)
        }
        StopAnswer::Refused { because: Some(because), .. } => in_use(pass, stray, because).await?,
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
async fn in_use(pass: &Pass, stray: Stray<'_>, because: Because) -> Result<Fate, StoreError> {
    let (now, row) = (pass.clock().now(), stray.row);
    if stray.case != StrayCase::Closed || matches!(because, Because::Generation | Because::Stale) {
        return Ok(refused(row, &timeline::refusal(&stray.post.runner.id, Some(because), None)));
    }
    let entry = timeline::reopened(act::grounds(pass, row, stray.observed), because, &pass.actor(), now);
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

fn would_reap(stray: Stray<'_>, says: EngineSays) -> Fate {
    let row = stray.row;
    match says {
        EngineSays::MayStop(_) => {
            let message = format!("Would stop its engine: {}.", Verdict::Stray.meaning());
            Fate::Reaped(item(row, Verdict::Stray, Action::WouldStop, &message))
        }
        EngineSays::Protected { because, .. } => {
            refused(row, &timeline::refusal(&stray.post.runner.id, Some(because), None))
        }
        EngineSays::Undetermined => {
            Fate::Shown(item(row, Verdict::Undetermined, Action::Kept, &act::kept(Verdict::Undetermined)))
        }
    }
}
