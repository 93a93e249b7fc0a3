//! `POST /coding/end`: the decision whether an engine may be stopped, and the beginning of its stop.
//!
//! An engine is stopped on a condition only if, at one moment under its own lock: it is of the generation named, the
//! stamp is of this epoch and at most [`STAMP_FRESH`] old, no message is on its way to it, all it has said was read, and
//! [`may_stop`] allows it by the limits sent. That is decided twice: before the intent is written, so that
//! refusals cost nothing, and after it, since the disk took its time.

mod answers;
mod condition;

use std::sync::Arc;
use std::time::Duration;

use crate::policy::engine::{EngineSays, may_stop};
use crate::protocol::{Because, EndAnswer, EndMode, EndOutcome, EndRequest, Ended, EngineState, StopLimits};
use crate::runner::engine::{Ending, Engine, Facts};
use crate::runner::engines::Interrupt;
use crate::runner::intents::{self, EndIntent};
use crate::runner::refusal::Refusal;
use crate::runner::stop::condition::{Condition, check};
use crate::runner::{Runner, files, usage};
use crate::time::{MINUTE, Ms, SECOND};

/// How long a decision waits for what the engine has said to be read.
const READ_WITHIN: Duration = Duration::from_millis(500);
/// How old the answer that a stop rests on may be, on a clock that runs on in sleep.
pub(crate) const STAMP_FRESH: Ms = MINUTE;

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
        match tokio::time::timeout(self.stop_most(session), session.gone()).await {
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
        session.is_read(READ_WITHIN).await;
        let first = self.decide(&session.facts(), request.generation, condition);
        if !matches!(first, Decision::Stop) {
            return Ok(first);
        }
        let folder = self.dir().session(&session.id);
        let (intent, earlier) = end_intent(session, request, matches!(condition, Condition::Force));
        let (writing, written) = (folder.clone(), intent.clone());
        if let Err(error) = files::aside(move || intents::write_end(&writing, &written)).await {
            let message = format!("the stop could not be written down, so nothing was stopped: {error}");
            return Err(Refusal::internal(message).about(&request.session_id, request.generation));
        }
        session.is_read(READ_WITHIN).await;
        let second = {
            let mut facts = session.facts();
            let second = self.decide(&facts, request.generation, condition);
            if matches!(second, Decision::Stop) {
                let (reason, sweep_id) = (intent.reason.clone(), intent.sweep_id.clone());
                session.begin_end(&mut facts, Ending { reason, sweep_id, asked: true, ..Ending::default() });
                facts.unfinished = Some(intent);
                facts.farewell = farewell(&mut facts);
            }
            second
        };
        match second {
            Decision::Stop => self.climb(session).await,
            // What an earlier life had written down is not this one's to take back.
            Decision::Join | Decision::Refuse { .. } if earlier => {}
            Decision::Join | Decision::Refuse { .. } => {
                if let Err(error) = files::aside(move || intents::remove_end(&folder)).await {
                    tracing::warn!(session_id = %session.id, %error, "a stop that was called off cannot be removed");
                }
            }
        }
        Ok(second)
    }

    /// Stops an engine that is as idle as `limits` say, of the runner's own accord; returns the reason if it did.
    ///
    /// What must be true: no worker was heard for as long as the configuration says, so nobody else would ever stop it;
    /// and, at one moment under the engine's own lock, everything that a worker's condition would ask but for the stamp.
    pub(crate) async fn end_of_own_accord(&self, session: &Arc<Engine>, limits: StopLimits) -> Option<String> {
        let (generation, verdict) = {
            let facts = session.facts();
            let state = facts.state(self.settings().clock.awake(), self.settings().stall_after);
            match may_stop(&state, &limits) {
                EngineSays::MayStop(verdict) => (facts.generation, verdict),
                EngineSays::Protected { .. } | EngineSays::Undetermined => return None,
            }
        };
        let request = EndRequest {
            session_id: session.id.clone(),
            generation,
            mode: EndMode::IfIdle,
            limits: Some(limits),
            stamp: None,
            reason: verdict.to_string(),
            sweep_id: None,
            owner_id: None,
        };
        let decision = self.decide_and_begin(session, &request, &Condition::Own { limits }).await;
        matches!(decision, Ok(Decision::Stop)).then_some(request.reason)
    }

    /// Stops every engine for whoever owns this runner's folder and is about to throw it away.
    ///
    /// What must be true: nobody will ever want one of them again. No condition is checked here, so no request may ever
    /// lead to it. An engine that is ending already keeps the reason it has.
    pub async fn stop_engines(&self) {
        let sessions: Vec<_> = self.known().sessions.values().cloned().collect();
        let stopping = sessions.iter().map(|session| async {
            session.started().await;
            {
                let _alone = session.change.lock().await;
                let detail = Some("the runner's folder was given up".to_owned());
                let ending = Ending { reason: "exited".to_owned(), detail, asked: true, ..Ending::default() };
                session.begin_end(&mut session.facts(), ending);
            }
            session.closing.cancel();
            let _ = tokio::time::timeout(self.stop_most(session), session.gone()).await;
        });
        futures_util::future::join_all(stopping).await;
    }

    /// Returns how long a caller waits for a stop before it is told that it goes on without them.
    pub(crate) fn stop_most(&self, session: &Engine) -> Duration {
        let most = session.spec.stop.unwrap_or(self.settings().graces).longest() + SECOND;
        Duration::from_millis(u64::try_from(most).unwrap_or(u64::MAX))
    }

    /// Measures what the engine holds, then has its shim climb the ladder.
    ///
    /// What must be true: the engine was marked as ending by the caller, by right; from here on there is no way back.
    async fn climb(&self, session: &Arc<Engine>) {
        let shim = session.facts().shim.map(|shim| shim.pid);
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
            Condition::IfIdle { limits, stamp } => (limits, Some(stamp)),
            Condition::Own { limits } => (limits, None),
        };
        let state = facts.state(self.settings().clock.awake(), self.settings().stall_after);
        let idle_ms = state.idle_ms.value();
        if stamp.is_some_and(|stamp| !self.is_fresh(stamp)) {
            return refuse(Because::Stale, idle_ms);
        }
        if facts.messages_on_their_way > 0 {
            return refuse(Because::Active, idle_ms);
        }
        match protection(&state, limits) {
            Some(because) => refuse(because, idle_ms),
            // What was said and not read yet may be the beginning of a turn.
            None if facts.behind => refuse(Because::Active, idle_ms),
            None => Decision::Stop,
        }
    }

    /// Returns whether the stamp is of this epoch, not from the future, and at most [`STAMP_FRESH`] old.
    fn is_fresh(&self, stamp: &str) -> bool {
        let Some((epoch, elapsed)) = stamp.split_once(':') else { return false };
        let (Ok(epoch), Ok(elapsed)) = (epoch.parse::<i64>(), elapsed.parse::<Ms>()) else { return false };
        let age = self.settings().clock.elapsed().saturating_sub(elapsed);
        epoch == self.epoch() && (0..=STAMP_FRESH).contains(&age)
    }
}

/// Makes what is written down about a stop, and says whether an earlier life had written it down already.
///
/// As long as nobody knows whether that one had begun, it keeps its reason, and a person's wish only makes sure of it.
fn end_intent(session: &Engine, request: &EndRequest, forced: bool) -> (EndIntent, bool) {
    let facts = session.facts();
    if let Some(earlier) = facts.unfinished.clone().filter(|earlier| earlier.generation == request.generation) {
        return (EndIntent { forced: forced || earlier.forced, ..earlier }, true);
    }
    let intent = EndIntent {
        generation: request.generation,
        reason: request.reason.clone(),
        sweep_id: request.sweep_id.clone(),
        forced,
        resume: facts.adapter.resume(&session.spec, facts.engine_session_id.as_deref(), &session.cwd),
    };
    (intent, false)
}

/// Returns what the engine is told before its input is closed, and whether it gets SIGINT: a turn that still runs is
/// interrupted and open tasks are stopped, or the engine would start a new turn to say that it was stopped.
fn farewell(facts: &mut Facts) -> (String, bool) {
    let (mut first, mut signal) = (Vec::new(), false);
    if facts.doings.in_turn() {
        match facts.adapter.interrupt() {
            Interrupt::Write(texts) => first.extend(texts),
            Interrupt::Signal => signal = true,
        }
    }
    if facts.doings.has_tasks() {
        first.extend(facts.adapter.stop_tasks());
    }
    (first.concat(), signal)
}

/// Returns what protects the engine. A state that cannot be told protects as if somebody used it.
fn protection(state: &EngineState, limits: &StopLimits) -> Option<Because> {
    match may_stop(state, limits) {
        EngineSays::MayStop(_) => None,
        EngineSays::Protected { because, .. } => Some(because),
        EngineSays::Undetermined => Some(Because::Active),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Settings;
    use crate::runner::engine::Plan;
    use crate::runner::engines::{AdapterKind, adapter};
    use crate::runner::settings::EngineSpec;

    #[test]
    fn what_an_engine_has_said_and_nobody_has_read_keeps_it() {
        let home = tempfile::tempdir().unwrap();
        let runner = Runner::open(Settings::in_home(home.path())).unwrap();
        let plan = Plan {
            start: 1,
            name: "e".to_owned(),
            adapter: adapter(AdapterKind::Lines),
            spec: EngineSpec::default(),
            cwd: "/".to_owned(),
            owner_id: None,
        };
        let (session, _errands) = Engine::starting("s1".parse().unwrap(), 1, plan, 0);
        let limits = StopLimits { quiet_for_ms: 1, awaiting_for_ms: 1, stalled_for_ms: 1, background_for_ms: 1 };
        let decide = || runner.decide(&session.facts(), 1, &Condition::Own { limits });
        assert!(matches!(decide(), Decision::Stop));
        session.facts().behind = true;
        assert!(matches!(decide(), Decision::Refuse { because: Because::Active, .. }));
    }
}
