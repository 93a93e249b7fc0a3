//! Does a run that has finished close its session? Only one that opened it itself, that did not fail, and when nobody else
//! and nothing in the engine needs it. Every doubt leaves it open: the idle sweep takes it later.

use std::time::Duration;

use crate::protocol::{Because, EndMode, EndOutcome, EndRequest, StopLimits, Told};
use crate::runner_client::{Observation, StopAnswer, StopCall, Target};
use crate::session::{ActivityKind, Run, RunStatus, Session};
use crate::store::RunFilter;
use crate::time::{MINUTE, Ms, SECOND, UtcMs, spoken};
use crate::timeline::{self, Actor};
use crate::tools::Tools;
use crate::verbs::ended::close_gone;
use crate::verbs::{VerbError, driving, person, runner_of};
use crate::verdict::Verdict;

/// How long an engine must have been silent before its run closes it. A use that comes between the look at the row and the
/// stop makes the engine younger than this, so that its runner refuses.
const SETTLED: Ms = SECOND;

/// How long an engine that does not tell its turns must have been silent before its run closes it: only its silence says
/// that it does nothing.
const SILENT_SETTLED: Ms = MINUTE;

/// How often an engine that was used a moment ago is asked about.
const TRIES: usize = 2;

/// Closes the session of a run that has just finished, or says why it stays open.
///
/// An engine is stopped only when all of this is true: the run opened the session and did not fail; no other run goes on
/// in it, fell silent or failed in it; nobody drives it or asked to keep it; nothing that is certainly somebody else's use is newer
/// than the run's begin, by the row as read after the runner's answer; an engine that does not tell its turns was
/// unused and said nothing for a minute at least; that runner checks conditions itself, and finds, under its own lock,
/// this very start of the session doing nothing, awaiting nothing, and unused since that answer and for a second at least. The row is closed
/// only on the runner's word that the engine is gone.
///
/// # Errors
/// When the store fails; the session stays then, or the next pass closes it by the runner's record.
pub(super) async fn close(tools: &Tools, run: &Run, actor: &Actor) -> Result<Option<String>, VerbError> {
    if !run.opened_session {
        return Ok(Some("the session stays open: the run did not open it".to_owned()));
    }
    if run.status == RunStatus::Failed {
        return Ok(Some("the session stays open: the run failed, and somebody may want to look".to_owned()));
    }
    for left in (0..TRIES).rev() {
        match attempt(tools, run, actor).await? {
            Attempt::Closed => return Ok(None),
            Attempt::TooFresh(_) if left > 0 => {
                tokio::time::sleep(Duration::from_millis(SETTLED.unsigned_abs())).await;
            }
            Attempt::TooFresh(why) | Attempt::Stays(why) => return Ok(Some(format!("the session stays open: {why}"))),
        }
    }
    Ok(None)
}

/// What came of one attempt.
enum Attempt {
    /// The engine is gone, or the session had ended before.
    Closed,
    /// The engine was used a moment ago; nothing was stopped.
    TooFresh(String),
    /// Something speaks against it, or nobody knows; one sentence. Nothing was stopped, as far as is known.
    Stays(String),
}

async fn attempt(tools: &Tools, run: &Run, actor: &Actor) -> Result<Attempt, VerbError> {
    let Some(session) = open_session(tools, run).await? else { return Ok(Attempt::Closed) };
    let target = match runner_of(tools, &session.runner_id).await {
        Ok(target) => target,
        Err(error @ VerbError::Store(_)) => return Err(error),
        Err(error) => return Ok(Attempt::Stays(error.to_string())),
    };
    let seen = match look(tools, target, &session).await {
        Ok(seen) => seen,
        Err(why) => return Ok(Attempt::Stays(why)),
    };
    // The row that the stop rests on is read after the runner's answer.
    let Some(row) = open_session(tools, run).await? else { return Ok(Attempt::Closed) };
    if (row.generation, &row.runner_id) != (session.generation, &session.runner_id) {
        return Ok(Attempt::Stays("it was started anew".to_owned()));
    }
    if let Some(why) = somebody_else(tools, run, &row).await? {
        return Ok(Attempt::Stays(why));
    }
    if seen.settled > SETTLED && seen.idle_ms < seen.settled {
        let least = spoken(seen.settled);
        return Ok(Attempt::Stays(format!(
            "its engine does not tell its turns, and was used or spoke less than {least} ago"
        )));
    }
    stop(tools, &seen, &row, &by_run(tools, run, actor)).await
}

async fn open_session(tools: &Tools, run: &Run) -> Result<Option<Session>, VerbError> {
    Ok(tools.store.find_session(&run.session_id).await?.filter(Session::is_open))
}

/// Who ends the session, as its timeline names it.
fn by_run(tools: &Tools, run: &Run, actor: &Actor) -> Actor {
    person(tools, &format!("run {} of {}", run.id, actor.name))
}

/// An answer of the runner on which a stop can rest.
struct Seen {
    target: Target,
    stamp: String,
    /// For how long nothing had used the engine by then.
    idle_ms: Ms,
    /// For how long that must be so before it is stopped.
    settled: Ms,
}

/// Asks the runner about the engine; or says why its answer is nothing to rest a stop on.
async fn look(tools: &Tools, target: Target, session: &Session) -> Result<Seen, String> {
    let runner = &session.runner_id;
    let observation = tools.runners.tracked(&target).await;
    let Observation::Live(set) = observation else {
        let why = observation.why().unwrap_or("it did not answer");
        return Err(format!("runner {runner} could not be asked: {why}"));
    };
    let Some(stamp) = set.stamp.clone() else {
        return Err(format!("runner {runner} does not check by itself that an engine is not in use"));
    };
    let this_start = set
        .tracked
        .iter()
        .find(|engine| engine.session_id == session.id && engine.generation == Some(session.generation));
    let Some(engine) = this_start else {
        return Err(format!("runner {runner} holds no engine for it; the next passes settle it"));
    };
    let Some(idle_ms) = engine.state.idle_ms.value() else {
        return Err(format!("runner {runner} cannot tell since when its engine has been silent"));
    };
    let settled = if matches!(engine.state.generating, Told::Silent) { SILENT_SETTLED } else { SETTLED };
    Ok(Seen { target: target.seen(&set), stamp, idle_ms, settled })
}

/// Says who else needs the session, by the row as just read; none when nobody does.
async fn somebody_else(tools: &Tools, run: &Run, session: &Session) -> Result<Option<String>, VerbError> {
    let now = tools.clock.now();
    if let Some(until) = session.keep_until.filter(|until| *until > now) {
        return Ok(Some(format!("it is kept until {until}")));
    }
    let limits = tools.config().policy.limits_of(session);
    let window = limits.stop().quiet_for_ms;
    let driven = driving(session, limits.driver_stale_after_ms, now);
    if let Some(driven) = driven.filter(|driven| driven.since.is_none_or(|at| now.since(at) < window)) {
        return Ok(Some(format!("{} claimed to drive it, and has not given that up", driven.driver)));
    }
    let shared = tools.store.find_shared_use(&session.id).await?;
    if let Some(why) = used_by_others(run, (session, shared), now) {
        return Ok(Some(why));
    }
    let filter = RunFilter { session: Some(session.id.clone()), ..RunFilter::default() };
    let needs = |other: &Run| {
        other.id != run.id && matches!(other.status, RunStatus::Running | RunStatus::Stale | RunStatus::Failed)
    };
    let other = tools.store.list_runs_of(&filter).await?.into_iter().find(needs);
    Ok(other.map(|other| format!("there is another run in it, {} ({})", other.id, other.status)))
}

/// Says that the session was used in a way in which whoever delegated the run does not use it, after the run began, whatever
/// used it since: `shared` is when. Messages and capture polls may be the run's own, and say nothing; a heartbeat says that
/// the run goes on, and not that somebody else needs the session no more.
fn used_by_others(run: &Run, (session, shared): (&Session, Option<UtcMs>), now: UtcMs) -> Option<String> {
    let last = session.last_activity_kind.filter(|kind| kind.is_shared());
    let at = last.and(session.last_activity_at).max(shared).filter(|at| *at > run.started_at)?;
    let what = match last {
        Some(ActivityKind::Copilot) => "a co-pilot took a turn in it",
        Some(ActivityKind::Timeline) => "somebody read its timeline",
        Some(ActivityKind::Keep) => "somebody asked to keep it",
        Some(ActivityKind::Start) => "somebody else asked for it",
        _ => "somebody who is not the run used it",
    };
    Some(format!("{what} {} ago", spoken(now.since(at))))
}

async fn stop(tools: &Tools, seen: &Seen, session: &Session, actor: &Actor) -> Result<Attempt, VerbError> {
    // What works, waits for a person, or will wake up is never stopped because of a run.
    let limits = StopLimits::only_if_doing_nothing(seen.idle_ms.max(seen.settled));
    let request = EndRequest {
        session_id: session.id.clone(),
        generation: session.generation,
        mode: EndMode::IfIdle,
        limits: Some(limits),
        stamp: Some(seen.stamp.clone()),
        reason: Verdict::EndedByPerson.to_string(),
        sweep_id: None,
        owner_id: None,
    };
    let runner = &session.runner_id;
    let (outcome, ended) = match tools.runners.end(&seen.target, &StopCall { request, set_recognised: false }).await {
        StopAnswer::Stopped(ended) => (EndOutcome::Stopped, ended),
        StopAnswer::AlreadyStopped(ended) => (EndOutcome::AlreadyStopped, ended),
        StopAnswer::Refused { because: Some(Because::Active), .. } => {
            return Ok(Attempt::TooFresh(
                "its engine was used a moment ago, or cannot tell what it is doing".to_owned(),
            ));
        }
        StopAnswer::Refused { because, idle_ms, .. } => {
            let why = timeline::refusal(runner, because, idle_ms);
            return Ok(Attempt::Stays(why.trim_start_matches("Kept: ").trim_end_matches('.').to_owned()));
        }
        StopAnswer::NotTracked => {
            return Ok(Attempt::Stays(format!("runner {runner} holds no engine for it; the next passes settle it")));
        }
        StopAnswer::Accepted => {
            return Ok(Attempt::Stays(format!(
                "runner {runner} has begun to stop its engine; the next pass closes it"
            )));
        }
        StopAnswer::Failed(why) | StopAnswer::NoAnswer(why) => {
            return Ok(Attempt::Stays(format!("runner {runner} did not say that its engine is gone: {why}")));
        }
    };
    close_gone(tools, &seen.target, (session, outcome), &ended, actor).await?;
    Ok(Attempt::Closed)
}
