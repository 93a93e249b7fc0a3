//! Reaping one nominee: read again, decide again, ask the runner, close.

use crate::policy::{self, Decision, RunnerView, Surroundings};
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

/// Decides about a session as it was read, on an answer of its runner; none where the runner is not enrolled.
pub(crate) fn decide(pass: &Pass, session: &Session, answer: Option<(&Post, &Observed)>) -> Decision {
    let now = pass.clock().now();
    let view = view(pass, session, answer, now);
    // A runner that measures silence corrects a clock that slept or was set; where none does, this host's own has to.
    let measured = matches!(view, RunnerView::Live(Some(engine)) if engine.state.idle_ms.value().is_some());
    let asleep_ms = if measured { 0 } else { pass.asleep(session, now) };
    let around = Surroundings { brake: answer.and_then(|(post, _)| post.brake(pass)), asleep_ms };
    policy::idle(session, view, around, &pass.config().policy, now)
}

/// Decides about a session as it was read, on the latest answer of its runner.
pub(crate) async fn decide_on_latest(pass: &Pass, session: &Session) -> Decision {
    match pass.posts.get(&session.runner_id) {
        Some(post) => decide(pass, session, Some((post, &*post.latest().await))),
        None => decide(pass, session, None),
    }
}

/// Reaps one nominee, unless anything speaks against it by now.
///
/// An engine is asked to stop only when all of this is true at that moment: the row, read after the answer that the stop
/// rests on, is open and past its window with nothing to keep it, no brake holds, and what [`act::stop`] makes sure of. A
/// row is closed only on the runner's word, or as `machine_gone`.
pub(crate) async fn reap(pass: &Pass, nominee: &Session) -> Fate {
    match try_reap(pass, nominee).await {
        Ok(fate) => fate,
        Err(error) => Fate::Failed(error.to_string()),
    }
}

async fn try_reap(pass: &Pass, nominee: &Session) -> Result<Fate, StoreError> {
    let Some(post) = pass.posts.get(&nominee.runner_id) else { return reap_unenrolled(pass, nominee).await };
    if let Some(verdict) = pass.hold().await? {
        return Ok(Fate::Kept(verdict));
    }
    let observed = post.fresh(pass).await?;
    let Some(session) = reread(pass, nominee).await? else { return Ok(Fate::Kept(Verdict::LostRace)) };
    let decision = decide(pass, &session, Some((post, &observed)));
    if !decision.reaps() {
        return Ok(Fate::Kept(decision.verdict));
    }
    let grounds = act::grounds(pass, &session, &observed).with(&decision);
    if decision.verdict == Verdict::MachineGone {
        return close_gone_machine(pass, grounds, observed.why.as_deref()).await;
    }
    // A runner that holds no engine as far as it said is asked all the same; if it has one by now, idleness ends it.
    let reason = if decision.verdict == Verdict::Orphaned { Verdict::Idle } else { decision.verdict };
    match act::stop(pass, &observed, &session, session.generation, reason).await? {
        Ok(answer) => settle(pass, post, grounds, answer).await,
        Err(verdict) => Ok(Fate::Kept(verdict)),
    }
}

/// Returns the row as it stands now, if it is still open and on the same runner.
async fn reread(pass: &Pass, nominee: &Session) -> Result<Option<Session>, StoreError> {
    let row = pass.store().find_session(&nominee.id).await?;
    Ok(row.filter(|row| row.is_open() && row.runner_id == nominee.runner_id))
}

/// Handles a nominee whose runner is not enrolled.
async fn reap_unenrolled(pass: &Pass, nominee: &Session) -> Result<Fate, StoreError> {
    let Some(session) = reread(pass, nominee).await? else { return Ok(Fate::Kept(Verdict::LostRace)) };
    let decision = decide(pass, &session, None);
    if !decision.reaps() {
        return Ok(Fate::Kept(decision.verdict));
    }
    let grounds = act::unobserved_grounds(pass, &session).with(&decision);
    close_gone_machine(pass, grounds, Some("no such runner is enrolled")).await
}

/// Closes the row of an idle session whose machine is gone.
///
/// What must be true: the policy decided `machine_gone` on the row as just read; and, looked at again here, the reaper may
/// act, this host is settled, and no process has reached the runner, or enrolled it, since. The store checks that the row
/// has not changed.
async fn close_gone_machine(pass: &Pass, grounds: Grounds<'_>, why: Option<&str>) -> Result<Fate, StoreError> {
    if let Some(verdict) = pass.hold().await? {
        return Ok(Fate::Kept(verdict));
    }
    if !pass.host().settled || was_reached(pass, grounds.session).await? {
        return Ok(Fate::Kept(Verdict::RunnerOffline));
    }
    let why = why.unwrap_or("no connection could be made");
    let (closed, item) = act::close_unchanged(pass, PART, grounds, Verdict::MachineGone, why).await?;
    Ok(fate_of(closed, item))
}

/// Returns whether the row of the session's runner shows a connection that is too young for the machine to be gone; a
/// runner that this pass does not know was enrolled meanwhile.
async fn was_reached(pass: &Pass, session: &Session) -> Result<bool, StoreError> {
    let Some(runner) = pass.store().find_runner(&session.runner_id).await? else { return Ok(false) };
    let (limit, now) = (pass.config().policy.runner_gone_after.0, pass.clock().now());
    let lately = runner.last_seen_at.is_some_and(|at| pass.host().waking_since(at, now) < limit);
    Ok(lately || !pass.posts.contains_key(&session.runner_id))
}

/// Does what the runner's answer to a stop asks for. A row is closed only if the engine is gone by that answer, or if a
/// runner that knows all its engines says that it holds none; everything else keeps it.
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
