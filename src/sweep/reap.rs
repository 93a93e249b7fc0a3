//! Reaping one nominee: read again, decide again, ask the runner, close.

use crate::policy::{self, Decision};
use crate::protocol::{Because, EndOutcome, Ended};
use crate::report::{Action, Fate, Item, PartName};
use crate::runner_client::StopAnswer;
use crate::session::Session;
use crate::store::{Closed, StoreError};
use crate::sweep::act::{self, item};
use crate::sweep::backoff;
use crate::sweep::observe::{Observed, Post, view};
use crate::sweep::pass::Pass;
use crate::time::Ms;
use crate::timeline::{self, Grounds};
use crate::verdict::Verdict;

const PART: PartName = PartName::Idle;

/// Decides about a session as it was read, on the answer that is handed in or on the latest one of its runner.
pub(crate) async fn decide(pass: &Pass, session: &Session, answer: Option<&Observed>) -> Decision {
    let now = pass.clock().now();
    let Some(post) = pass.posts.get(&session.runner_id) else {
        return policy::idle(session, view(pass, session, None, now), &pass.config().policy, now);
    };
    let latest = post.latest().await;
    let observed = answer.unwrap_or(&latest);
    let decision = policy::idle(session, view(pass, session, Some((post, observed)), now), &pass.config().policy, now);
    match brake(pass, post, &decision) {
        Some(verdict) => Decision { verdict, ..decision },
        None => decision,
    }
}

/// Returns the verdict that replaces a reap, where a brake of the pass holds.
///
/// A foreign runner checks no condition, so nothing is stopped there on the word of a clock that was just moved, nor
/// where its row asks for conditional stops only.
fn brake(pass: &Pass, post: &Post, decision: &Decision) -> Option<Verdict> {
    let asks_to_stop = decision.reaps() && decision.verdict != Verdict::MachineGone;
    if !asks_to_stop {
        None
    } else if post.is_foreign() && pass.host.jumped {
        Some(Verdict::ClockUnsettled)
    } else if post.is_foreign() && post.runner.require_conditional_stop {
        Some(Verdict::Refused)
    } else {
        post.is_given_up().then_some(Verdict::RunnerOffline)
    }
}

/// Reaps one nominee, unless anything speaks against it by now.
///
/// An engine is asked to stop only when all of this is true at that moment: the process is not ending, the reaper is not
/// paused, the row, read after the answer that the stop rests on, is open and past its window with nothing to keep it,
/// and no brake holds. A row is closed only on the runner's word, or as `machine_gone`.
pub(crate) async fn reap(pass: &Pass, nominee: &Session) -> Fate {
    match try_reap(pass, nominee).await {
        Ok(fate) => fate,
        Err(error) => Fate::Failed(error.to_string()),
    }
}

async fn try_reap(pass: &Pass, nominee: &Session) -> Result<Fate, StoreError> {
    let Some(post) = pass.posts.get(&nominee.runner_id) else { return reap_gone(pass, nominee).await };
    let Ok(_turn) = pass.stops.acquire().await else { return Ok(Fate::Kept(Verdict::Limit)) };
    if pass.cancel.is_cancelled() {
        return Ok(Fate::Kept(Verdict::Limit));
    }
    let observed = post.fresh(pass).await?;
    let Some(session) = reread(pass, nominee).await? else { return Ok(Fate::Kept(Verdict::LostRace)) };
    let decision = decide(pass, &session, Some(&observed)).await;
    if !decision.reaps() {
        return Ok(Fate::Kept(decision.verdict));
    }
    if pass.is_paused().await? {
        return Ok(Fate::Kept(Verdict::Paused));
    }
    if decision.verdict == Verdict::MachineGone {
        return close_gone_machine(pass, &session, &decision, observed.why.as_deref()).await;
    }
    if observed.is_old(pass.clock()) {
        return Ok(Fate::Kept(Verdict::Undetermined));
    }
    // A runner that holds no engine as far as it said is asked all the same; if it has one by now, idleness ends it.
    let reason = if decision.verdict == Verdict::Orphaned { Verdict::Idle } else { decision.verdict };
    let answer = act::stop(pass, &observed, &session, session.generation, reason).await;
    settle(pass, post, act::grounds(pass, &session, &observed).with(&decision), answer).await
}

/// Returns the row as it stands now, if it is still open and on the same runner.
async fn reread(pass: &Pass, nominee: &Session) -> Result<Option<Session>, StoreError> {
    let row = pass.store().find_session(&nominee.id).await?;
    Ok(row.filter(|row| row.is_open() && row.runner_id == nominee.runner_id))
}

/// Handles a nominee whose runner is not enrolled.
async fn reap_gone(pass: &Pass, nominee: &Session) -> Result<Fate, StoreError> {
    let Some(session) = reread(pass, nominee).await? else { return Ok(Fate::Kept(Verdict::LostRace)) };
    let decision = decide(pass, &session, None).await;
    if !decision.reaps() {
        return Ok(Fate::Kept(decision.verdict));
    }
    if pass.is_paused().await? {
        return Ok(Fate::Kept(Verdict::Paused));
    }
    if pass.store().find_runner(&session.runner_id).await?.is_some() {
        return Ok(Fate::Kept(Verdict::RunnerOffline));
    }
    close_gone_machine(pass, &session, &decision, Some("no such runner is enrolled")).await
}

async fn close_gone_machine(
    pass: &Pass,
    session: &Session,
    decision: &Decision,
    why: Option<&str>,
) -> Result<Fate, StoreError> {
    let why = why.unwrap_or("no connection could be made");
    let grounds = Grounds::of(session).with(decision);
    let (closed, item) = act::close_unchanged(pass, PART, grounds, Verdict::MachineGone, why).await?;
    Ok(fate_of(closed, item))
}

/// Does what the runner's answer to a stop asks for.
async fn settle(pass: &Pass, post: &Post, grounds: Grounds<'_>, answer: StopAnswer) -> Result<Fate, StoreError> {
    let session = grounds.session;
    match answer {
        StopAnswer::Stopped(ended) => gone(pass, grounds, EndOutcome::Stopped, &ended).await,
        StopAnswer::AlreadyStopped(ended) => gone(pass, grounds, EndOutcome::AlreadyStopped, &ended).await,
        StopAnswer::NotTracked => {
            let (closed, item) = act::close_unchanged(pass, PART, grounds, Verdict::Orphaned, "").await?;
            Ok(fate_of(closed, item))
        }
        StopAnswer::Refused { because, idle_ms, .. } => refused(pass, grounds, because, idle_ms).await,
        StopAnswer::Accepted => {
            backoff::after_failure(pass, session).await?;
            let runner = &session.runner_id;
            Ok(Fate::Failed(format!("runner {runner} has begun to stop the engine and has not finished yet")))
        }
        StopAnswer::Failed(why) => failed(pass, session, &why).await,
        StopAnswer::NoAnswer(why) => {
            post.gave_no_answer();
            failed(pass, session, &why).await
        }
    }
}

async fn gone(pass: &Pass, grounds: Grounds<'_>, outcome: EndOutcome, ended: &Ended) -> Result<Fate, StoreError> {
    let (closed, item) = act::close_gone(pass, PART, grounds, outcome, ended).await?;
    Ok(fate_of(closed, item))
}

async fn failed(pass: &Pass, session: &Session, why: &str) -> Result<Fate, StoreError> {
    backoff::after_failure(pass, session).await?;
    Ok(Fate::Failed(format!("runner {} did not stop the engine: {why}", session.runner_id)))
}

async fn refused(
    pass: &Pass,
    grounds: Grounds<'_>,
    because: Option<Because>,
    idle_ms: Option<Ms>,
) -> Result<Fate, StoreError> {
    let (now, session) = (pass.clock().now(), grounds.session);
    // Where another process ended it in the meantime and let the runner forget, there is nothing left to refuse.
    if reread(pass, session).await?.is_none_or(|row| row.generation != session.generation) {
        return Ok(Fate::Kept(Verdict::LostRace));
    }
    pass.store().add_entry(&timeline::refused(grounds, because, idle_ms, &pass.actor(), now)).await?;
    backoff::after_refusal(pass, session, because, idle_ms).await?;
    let message = timeline::refusal(&session.runner_id, because, idle_ms);
    Ok(Fate::Shown(item(session, Verdict::Refused, Action::Kept, &message)))
}

fn fate_of(closed: Closed, item: Item) -> Fate {
    match closed {
        Closed::Done => Fate::Reaped(item),
        Closed::LostRace => Fate::Kept(Verdict::LostRace),
    }
}
