//! Part `strays`: stop engines whose row is ended, names another runner, or is of a later generation by now.
//!
//! An engine is a target if and only if a live runner tracks it, this store knows its session, and the row does not fit
//! it. It is stopped under the idle condition only, and never on a runner's word about an engine ahead of its row (as
//! after a restored store). An engine whose session this store never knew may belong to another control plane.

use crate::policy::engine::{EngineSays, may_stop};
use crate::policy::{StrayCase, stray_case};
use crate::protocol::{Because, TrackedSession};
use crate::runner_client::StopAnswer;
use crate::session::{Id, Session};
use crate::store::{Reopen, Reopened, StoreError};
use crate::sweep::act::{self, item, stored};
use crate::sweep::observe::{Observed, Post};
use crate::sweep::pass::Pass;
use crate::sweep::report::{Action, PartName, PartReport};
use crate::timeline;
use crate::verdict::Verdict;

const PART: PartName = PartName::Strays;

/// Runs the part.
pub(crate) async fn sweep(pass: &Pass) -> Result<PartReport, StoreError> {
    let mut report = PartReport::default();
    for post in pass.posts.values() {
        let observed = post.latest().await;
        let tracked: Vec<(Id, Option<i64>)> =
            observed.set.tracked.iter().map(|engine| (engine.session_id.clone(), engine.generation)).collect();
        for (id, row) in pass.store().list_mismatched(&post.runner.id, &tracked).await? {
            if let Some(engine) = observed.engine(&id) {
                look_at(pass, post, (engine, row.as_ref()), &mut report).await?;
            }
        }
    }
    Ok(report)
}

/// Decides about one engine that does not fit its row.
async fn look_at(
    pass: &Pass,
    post: &Post,
    (engine, row): (&TrackedSession, Option<&Session>),
    report: &mut PartReport,
) -> Result<(), StoreError> {
    let runner = &post.runner.id;
    let shown = |text: &str| crate::sweep::report::Item {
        session_id: engine.session_id.clone(),
        verdict: Verdict::Undetermined,
        action: Action::Kept,
        message: text.to_owned(),
    };
    match (stray_case(engine, row, runner), row) {
        (StrayCase::Fits, _) => {}
        (StrayCase::Closed | StrayCase::Elsewhere, Some(row)) => reap(pass, post, row, report).await?,
        (StrayCase::Ahead, _) => report.keep_item(shown(&format!(
            "Kept: runner {runner} holds a later start of this session than the store knows; was the store restored from a backup?"
        ))),
        (StrayCase::NeverKnown | StrayCase::Closed | StrayCase::Elsewhere, _) => report.keep_item(shown(&format!(
            "Left alone: runner {runner} holds an engine for a session that this store never knew; it may belong to another Sexton."
        ))),
    }
    Ok(())
}

/// Stops one stray, if its own runner agrees that nobody uses it.
///
/// What must be true before a stop is asked for: on an answer that is fresh, the row, read after it, still does not fit
/// the engine; the engine's own state allows a stop; nobody asked to keep the session; the reaper is not paused; no brake
/// holds.
async fn reap(pass: &Pass, post: &Post, row: &Session, report: &mut PartReport) -> Result<(), StoreError> {
    let observed = if pass.request.dry_run { post.latest().await } else { post.fresh(pass).await? };
    let Some(engine) = observed.engine(&row.id) else { return Ok(report.keep(Verdict::LostRace)) };
    let Some(row) = pass.store().find_session(&row.id).await? else { return Ok(report.keep(Verdict::LostRace)) };
    let case = stray_case(engine, Some(&row), &post.runner.id);
    if !matches!(case, StrayCase::Closed | StrayCase::Elsewhere) {
        return Ok(report.keep(Verdict::LostRace));
    }
    let says = may_stop(&engine.state, &pass.config().policy.stop_limits(row.idle_after_ms));
    if pass.request.dry_run {
        return Ok(would_reap(&row, &says, report));
    }
    if let Some(verdict) = brake(pass, post, &row).await? {
        return Ok(report.keep(verdict));
    }
    match says {
        EngineSays::Undetermined => Ok(report.keep(Verdict::Undetermined)),
        EngineSays::Protected { because, .. } if post.is_foreign() => in_use(pass, case, &row, because, report).await,
        EngineSays::Protected { .. } | EngineSays::MayStop(_) => {
            let generation = engine.generation.unwrap_or(row.generation);
            stop(pass, (post, &observed), (case, &row, generation), report).await
        }
    }
}

/// Returns the verdict that keeps a stray whatever its engine says.
async fn brake(pass: &Pass, post: &Post, row: &Session) -> Result<Option<Verdict>, StoreError> {
    let now = pass.clock().now();
    Ok(if pass.cancel.is_cancelled() {
        Some(Verdict::Limit)
    } else if pass.is_paused().await? {
        Some(Verdict::Paused)
    } else if row.keep_until.is_some_and(|until| until > now) {
        Some(Verdict::KeptByRequest)
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
    (case, row, generation): (StrayCase, &Session, i64),
    report: &mut PartReport,
) -> Result<(), StoreError> {
    let runner = &post.runner.id;
    match act::stop(pass, observed, row, generation, Verdict::Stray).await {
        StopAnswer::Stopped(ended) | StopAnswer::AlreadyStopped(ended) => {
            match act::note_stopped(pass, PART, (runner, row), &ended).await? {
                (true, item) => report.reap(item),
                (false, _) => report.keep(Verdict::LostRace),
            }
        }
        StopAnswer::NotTracked => report.keep(Verdict::LostRace),
        StopAnswer::Refused { because: Some(because), .. } => in_use(pass, case, row, because, report).await?,
        StopAnswer::Refused { because: None, idle_ms, .. } => {
            report.keep_item(item(row, Verdict::Refused, Action::Kept, &timeline::refusal(row, None, idle_ms)));
        }
        StopAnswer::Accepted => {
            report.fail(
                row.id.clone(),
                Verdict::StopFailed,
                format!("runner {runner} has begun to stop the engine and has not finished yet"),
            );
        }
        StopAnswer::Failed(why) | StopAnswer::NoAnswer(why) => {
            report.fail(row.id.clone(), Verdict::StopFailed, format!("runner {runner} did not stop the engine: {why}"));
        }
    }
    Ok(())
}

/// Opens the row of a stray again that turned out to be in use, where its place is still free; shows it otherwise.
async fn in_use(
    pass: &Pass,
    case: StrayCase,
    row: &Session,
    because: Because,
    report: &mut PartReport,
) -> Result<(), StoreError> {
    let now = pass.clock().now();
    let uses = !matches!(because, Because::Generation | Because::Stale);
    let refused = |text: &str| item(row, Verdict::Refused, Action::Kept, text);
    if case != StrayCase::Closed || !uses {
        report.keep_item(refused(&timeline::refusal(row, Some(because), None)));
        return Ok(());
    }
    let entry = timeline::reopened(row, because, &pass.actor(), now);
    let line = item(row, Verdict::Refused, Action::Reopened, &entry.message);
    let outcome = pass
        .store()
        .reopen_session(&Reopen { session: row, at: now, entry: &entry, item: Some(&stored(pass, PART, &line, now)) })
        .await?;
    report.keep_item(match outcome {
        Reopened::Done => line,
        Reopened::Taken => refused("Kept: the engine is in use, and its owner has another open session in that repo."),
        Reopened::AlreadyStopped => {
            refused("Kept: the engine is in use, though the runner said before that it was gone.")
        }
        Reopened::LostRace => item(row, Verdict::LostRace, Action::Kept, "Kept: its row changed meanwhile."),
    });
    Ok(())
}

fn would_reap(row: &Session, says: &EngineSays, report: &mut PartReport) {
    match says {
        EngineSays::MayStop(_) => {
            report.reap(item(row, Verdict::Stray, Action::WouldStop, "Would stop its engine: stray."))
        }
        EngineSays::Protected { because, .. } => {
            report.keep_item(item(row, Verdict::Refused, Action::Kept, &timeline::refusal(row, Some(*because), None)));
        }
        EngineSays::Undetermined => {
            report.keep_item(item(row, Verdict::Undetermined, Action::Kept, "Kept: its state cannot be told."));
        }
    }
}
