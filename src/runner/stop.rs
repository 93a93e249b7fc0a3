//! `POST /coding/end`: the decision whether an engine may be stopped, and the beginning of its stop.
//!
//! An engine is stopped on a condition only if, at one moment under its own lock: it is of the generation named, the
//! stamp is of this epoch and at most [`STAMP_FRESH`] old, no message is on its way to it, and
//! [`may_stop`] allows it by the limits sent. That is decided twice: before the intent is written, so that
//! refusals cost nothing, and after it, since the disk took its time.

use std::sync::Arc;

use crate::policy::engine::{EngineSays, may_stop};
use crate::protocol::{Because, EndAnswer, EndMode, EndOutcome, EndRequest, Ended, EngineState, StopLimits};
use crate::runner::engine::{Ending, Engine, Facts, is_for};
use crate::runner::intents::{self, EndIntent};
use crate::runner::refusal::Refusal;
use crate::runner::{Runner, files, usage};
use crate::session::Id;
use crate::time::{HOUR, MINUTE, Ms};

/// How old the answer that a stop rests on may be, on a clock that runs on in sleep.
pub(crate) const STAMP_FRESH: Ms = MINUTE;
/// The longest limit of a stop that makes sense: ten years.
const LIMIT_MOST: Ms = 10 * 365 * 24 * HOUR;

/// What must be true of an engine that is to be stopped.
enum Condition {
    /// Nothing but its generation: a person's explicit wish.
    Force,
    /// It is as idle as the limits say, and the answer that says so is fresh.
    IfIdle { limits: StopLimits, stamp: String },
}

/// What the lock said.
enum Decision {
    Stop,
    /// It is ending already.
    Join,
    Refuse {
        because: Because,
        idle_ms: Option<Ms>,
    },
}

impl Runner {
    /// Stops an engine on its condition, or says why not.
    pub(crate) async fn end(&self, request: EndRequest) -> Result<EndAnswer, Refusal> {
        let condition = check(&request)?;
        let owner = request.owner_id.as_deref();
        let Some(session) = self.session_of(&request.session_id, owner) else {
            return Ok(self.ended_before(&request));
        };
        if let Some(ended) = self.record(&request.session_id, request.generation, owner) {
            return Ok(self.stopped(EndOutcome::AlreadyStopped, ended));
        }
        session.started().await;
        match self.decide_and_begin(&session, &request, &condition).await? {
            Decision::Refuse { because, idle_ms } => Ok(self.refused(&session, &request, because, idle_ms)),
            Decision::Stop => Ok(self.await_end(&session, &request, EndOutcome::Stopped).await),
            Decision::Join => Ok(self.await_end(&session, &request, EndOutcome::AlreadyStopped).await),
        }
    }

    async fn await_end(&self, session: &Engine, request: &EndRequest, outcome: EndOutcome) -> EndAnswer {
        match tokio::time::timeout(self.stop_most(), session.gone()).await {
            Ok(Some(ended)) => {
                let told = self.record(&ended.session_id, ended.generation, None);
                self.stopped(outcome, told.unwrap_or_else(|| Ended::clone(&ended)))
            }
            Ok(None) | Err(_) => self.plain(request, EndOutcome::Accepted),
        }
    }

    /// Decides, writes the intent, decides again, and begins the stop if it still may be.
    ///
    /// What must be true at the moment it begins: everything that `condition` asks, under the engine's own lock; and the
    /// intent is on disk. Whatever else came between, the intent is taken back and nothing is stopped.
    async fn decide_and_begin(
        &self,
        session: &Arc<Engine>,
        request: &EndRequest,
        condition: &Condition,
    ) -> Result<Decision, Refusal> {
        let _alone = session.change.lock().await;
        let first = self.decide(&session.facts(), request.generation, condition);
        if !matches!(first, Decision::Stop) {
            return Ok(first);
        }
        let folder = self.dir().session(&session.id);
        let intent = self.end_intent(session, request);
        let writing = folder.clone();
        if let Err(error) = files::aside(move || intents::write_end(&writing, &intent)).await {
            let message = format!("the stop could not be written down, so nothing was stopped: {error}");
            return Err(Refusal::internal(message).about(&request.session_id, request.generation));
        }
        let second = {
            let mut facts = session.facts();
            let second = self.decide(&facts, request.generation, condition);
            if matches!(second, Decision::Stop) {
                let (reason, sweep_id) = (request.reason.clone(), request.sweep_id.clone());
                session.begin_end(&mut facts, Ending { reason, sweep_id, asked: true, ..Ending::default() });
            }
            second
        };
        match second {
            Decision::Stop => self.climb(session).await,
            Decision::Join | Decision::Refuse { .. } => {
                if let Err(error) = files::aside(move || intents::remove_end(&folder)).await {
                    tracing::warn!(session_id = %session.id, %error, "a stop that was called off cannot be removed");
                }
            }
        }
        Ok(second)
    }

    fn end_intent(&self, session: &Engine, request: &EndRequest) -> EndIntent {
        let facts = session.facts();
        let known = facts.engine_session_id.clone();
        EndIntent {
            generation: request.generation,
            reason: request.reason.clone(),
            sweep_id: request.sweep_id.clone(),
            resume: facts.adapter.resume(&session.spec, known.as_deref(), &session.cwd),
        }
    }

    /// Begins a stop that nobody has to be asked about: of the runner's own accord.
    ///
    /// What must be true: the runner itself is leaving, and its engines cannot outlive it. No condition is checked here,
    /// so no request may ever lead to it. An engine that is ending already keeps the reason it has.
    pub(crate) async fn begin_stop(&self, session: &Arc<Engine>, ending: Ending) {
        let _alone = session.change.lock().await;
        let began = session.begin_end(&mut session.facts(), ending);
        if began {
            self.climb(session).await;
        }
        session.closing.cancel();
    }

    /// Measures what the engine holds, then closes its input, which is the first rung; the shim climbs the others.
    ///
    /// What must be true: the engine was marked as ending by the caller, by right; from here on there is no way back.
    async fn climb(&self, session: &Arc<Engine>) {
        let shim = session.facts().shim;
        if let Some(shim) = shim {
            let measured = tokio::task::spawn_blocking(move || usage::below(shim).rss_bytes).await.ok();
            if let Some(ending) = &mut session.facts().ending {
                ending.freed_bytes = measured;
            }
        }
        session.closing.cancel();
    }

    fn decide(&self, facts: &Facts, generation: i64, condition: &Condition) -> Decision {
        let refuse = |because, idle_ms| Decision::Refuse { because, idle_ms };
        if facts.generation != generation {
            return refuse(Because::Generation, None);
        }
        if facts.ending.is_some() {
            return Decision::Join;
        }
        let (limits, stamp) = match condition {
            Condition::Force => return Decision::Stop,
            Condition::IfIdle { limits, stamp } => (limits, stamp),
        };
        let state = facts.state(self.settings().clock.awake(), self.settings().stall_after);
        let idle_ms = state.idle_ms.value();
        if !self.is_fresh(stamp) {
            return refuse(Because::Stale, idle_ms);
        }
        if facts.messages_on_their_way > 0 {
            return refuse(Because::Active, idle_ms);
        }
        protection(&state, limits).map_or(Decision::Stop, |because| refuse(because, idle_ms))
    }

    /// Returns whether the stamp is of this epoch, not from the future, and at most [`STAMP_FRESH`] old.
    fn is_fresh(&self, stamp: &str) -> bool {
        let Some((epoch, elapsed)) = stamp.split_once(':') else { return false };
        let (Ok(epoch), Ok(elapsed)) = (epoch.parse::<i64>(), elapsed.parse::<Ms>()) else { return false };
        let age = self.settings().clock.elapsed().saturating_sub(elapsed);
        epoch == self.epoch() && (0..=STAMP_FRESH).contains(&age)
    }

    fn record(&self, id: &Id, generation: i64, owner: Option<&str>) -> Option<Ended> {
        let known = self.known();
        let record = known.records.get(id, generation).filter(|it| is_for(owner, it.owner_id.as_deref()));
        record.map(|it| it.told(&*self.settings().clock, &self.shared.boot_id))
    }

    /// Answers for a session that has no engine here, as far as the owner may know.
    fn ended_before(&self, request: &EndRequest) -> EndAnswer {
        let owner = request.owner_id.as_deref();
        if let Some(ended) = self.record(&request.session_id, request.generation, owner) {
            return self.stopped(EndOutcome::AlreadyStopped, ended);
        }
        let known = self.known().records.newest(&request.session_id).cloned();
        let newest = known.filter(|record| is_for(owner, record.owner_id.as_deref()));
        match newest.map(|record| record.ended.generation) {
            Some(highest) if request.generation < highest => EndAnswer {
                because: Some(Because::Generation),
                highest_generation: Some(highest),
                ..self.plain(request, EndOutcome::Refused)
            },
            Some(_) | None => self.plain(request, EndOutcome::NotTracked),
        }
    }

    /// Returns the highest generation of the session that is known, living or ended.
    pub(crate) fn highest(&self, id: &Id) -> Option<i64> {
        let known = self.known();
        let living = known.sessions.get(id).map(|session| session.facts().generation);
        living.max(known.records.newest(id).map(|record| record.ended.generation))
    }

    fn refused(&self, session: &Engine, request: &EndRequest, because: Because, idle_ms: Option<Ms>) -> EndAnswer {
        let highest = self.highest(&session.id).filter(|_| because == Because::Generation);
        let plain = self.plain(request, EndOutcome::Refused);
        EndAnswer { because: Some(because), idle_ms, highest_generation: highest, ..plain }
    }

    fn stopped(&self, outcome: EndOutcome, ended: Ended) -> EndAnswer {
        EndAnswer {
            origin: self.origin(),
            session_id: ended.session_id.clone(),
            generation: Some(ended.generation),
            outcome,
            because: None,
            idle_ms: None,
            highest_generation: None,
            ended: Some(ended.into()),
        }
    }

    fn plain(&self, request: &EndRequest, outcome: EndOutcome) -> EndAnswer {
        EndAnswer {
            origin: self.origin(),
            session_id: request.session_id.clone(),
            generation: Some(request.generation),
            outcome,
            because: None,
            idle_ms: None,
            highest_generation: None,
            ended: None,
        }
    }
}

/// Returns what protects the engine. A state that cannot be told protects as if somebody used it.
fn protection(state: &EngineState, limits: &StopLimits) -> Option<Because> {
    match may_stop(state, limits) {
        EngineSays::MayStop(_) => None,
        EngineSays::Protected { because, .. } => Some(because),
        EngineSays::Undetermined => Some(Because::Active),
    }
}

/// Returns the condition of a stop; one without all that it needs is refused, and never taken for none.
fn check(request: &EndRequest) -> Result<Condition, Refusal> {
    let bad = |message: &str| Err(Refusal::bad(message).about(&request.session_id, request.generation));
    if !Id::fits(&request.reason) {
        return bad("the reason is not one word of letters, digits, \"_\" or \"-\"");
    }
    match request.mode {
        EndMode::Force => return Ok(Condition::Force),
        EndMode::IfIdle => {}
    }
    let Some(limits) = request.limits else { return bad("a stop with mode if_idle needs its limits") };
    let all = [limits.quiet_for_ms, limits.awaiting_for_ms, limits.stalled_for_ms, limits.background_for_ms];
    if !all.iter().all(|ms| (0..=LIMIT_MOST).contains(ms)) {
        return bad("a limit of a stop is negative or longer than ten years");
    }
    let Some(stamp) = request.stamp.clone() else {
        return bad("a stop with mode if_idle needs the stamp of the answer it rests on");
    };
    Ok(Condition::IfIdle { limits, stamp })
}
