//! The smaller verbs: list, find, health, touch and forget.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use serde::Serialize;

use crate::protocol::{
    Ended, FailureOutcome, FindAnswer, FindRequest, ForgetRequest, Health, ListRequest, Origin, SessionAnswer,
    TouchOutcome, TouchRequest, TrackedSession,
};
use crate::runner::engine::{Engine, Facts, is_for};
use crate::runner::records::{self, Record};
use crate::runner::refusal::Refusal;
use crate::runner::{Runner, usage};
use crate::session::Id;

/// How long a touch waits for the shim to have it.
pub(crate) const KEPT_WITHIN: Duration = Duration::from_secs(1);
/// How long the text may be that comes back in an answer.
const ASK_MOST: usize = 128;

/// The answer to `GET /coding/sessions`.
#[derive(Debug, Serialize)]
pub(crate) struct SessionsAnswer {
    #[serde(flatten)]
    origin: Origin,
    /// Which state folder it speaks from.
    state_id: String,
    stamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ask: Option<String>,
    pub(crate) complete: bool,
    tracked: Vec<TrackedSession>,
    ended: Vec<Ended>,
}

impl Runner {
    /// Lists what it holds and what it remembers.
    ///
    /// A list for one owner is never complete, so that nobody takes what it leaves out for gone.
    pub(crate) async fn list(&self, ListRequest { ask, owner_id }: ListRequest) -> SessionsAnswer {
        let clock = &*self.settings().clock;
        let origin = self.origin();
        // Before anything is looked at: the answer is as old as its oldest part.
        let stamp = format!("{}:{}", self.epoch(), clock.elapsed());
        let (sessions, ended) = {
            let known = self.known();
            let owner = owner_id.as_deref();
            let ended = known.records.listed(clock, &self.shared.boot_id, owner);
            let mine = known.sessions.values().filter(|session| is_for(owner, session.owner_id.as_deref()));
            (mine.cloned().collect::<Vec<_>>(), ended)
        };
        let tracked = self.with_usage(&sessions).await;
        let state_id = self.dir().state_id.clone();
        let ask = ask.filter(|ask| ask.len() <= ASK_MOST);
        let complete = origin.ready && owner_id.is_none();
        SessionsAnswer { complete, origin, state_id, stamp, ask, tracked, ended }
    }

    async fn with_usage(&self, sessions: &[Arc<Engine>]) -> Vec<TrackedSession> {
        let (now, stall_after) = (self.settings().clock.awake(), self.settings().stall_after);
        let mut tracked: Vec<_> = sessions.iter().map(|session| session.tracked(now, stall_after)).collect();
        let shims: Vec<_> = sessions.iter().map(|session| session.facts().shim.map(|shim| shim.pid)).collect();
        let measure = move || shims.into_iter().map(|shim| shim.map(usage::below)).collect::<Vec<_>>();
        let costs = tokio::task::spawn_blocking(measure).await.unwrap_or_default();
        for (one, cost) in tracked.iter_mut().zip(costs) {
            one.rss_bytes = cost.map(|cost| cost.rss_bytes);
            one.cpu_ms = cost.map(|cost| cost.cpu_ms);
        }
        tracked
    }

    /// Finds the session of an engine's own id: one whose engine lives before one whose engine is gone.
    pub(crate) fn find(&self, request: &FindRequest) -> Result<FindAnswer, Refusal> {
        let (owner, wanted) = (request.owner_id.as_deref(), request.engine_session_id.as_str());
        let known = self.known();
        let living = known.holders(wanted).find(|session| is_for(owner, session.owner_id.as_deref()));
        let found = living.map(|session| (session.id.clone(), session.facts().generation, true)).or_else(|| {
            let mine = known.records.of_conversation(wanted).filter(|it| is_for(owner, it.owner_id.as_deref()));
            let record = mine.max_by_key(|record| record.at)?;
            Some((record.ended.session_id.clone(), record.ended.generation, false))
        });
        drop(known);
        let Some((session_id, generation, tracked)) = found else {
            let message = "this runner knows no session of that engine session id";
            return Err(Refusal::new(StatusCode::NOT_FOUND, FailureOutcome::NotTracked, message));
        };
        let (origin, engine_session_id) = (self.origin(), request.engine_session_id.clone());
        Ok(FindAnswer { origin, session_id, generation, engine_session_id, tracked })
    }

    /// Says how it is.
    pub(crate) fn health(&self) -> Health {
        let sessions: Vec<_> = self.known().sessions.values().cloned().collect();
        let engines = self.settings().engines_here();
        Health {
            origin: self.origin(),
            engines,
            sessions: sessions.len(),
            pid: Some(std::process::id()),
            damaged: self.damaged().clone(),
            stuck: sessions.iter().filter_map(|session| stuck(session)).collect(),
            troubles: sessions.iter().filter_map(|session| trouble(session)).collect(),
        }
    }

    /// Takes note that somebody uses the session; it is kept by the shim before anybody is told.
    pub(crate) async fn touch(&self, request: &TouchRequest) -> Result<SessionAnswer, Refusal> {
        let named = (&request.session_id, request.generation, request.owner_id.as_deref());
        let (session, ()) = self.using(named, |facts, now| facts.doings.touch(now))?;
        // A shim that does not answer right now changes nothing about what this process knows.
        let _ = tokio::time::timeout(KEPT_WITHIN, session.keep()).await;
        let tracked = session.tracked(self.settings().clock.awake(), self.settings().stall_after);
        Ok(SessionAnswer {
            session: Some(tracked),
            outcome: Some(TouchOutcome::Touched),
            ..self.plain_answer(&request.session_id, request.generation)
        })
    }

    /// Returns an answer about a session that says nothing but who answers.
    pub(crate) fn plain_answer(&self, id: &Id, generation: i64) -> SessionAnswer {
        let (origin, session_id) = (self.origin(), id.clone());
        SessionAnswer { origin, session: None, session_id, generation, outcome: None, turn: None }
    }

    /// Does something with an engine that lives, is of this generation and of this owner, under its lock.
    pub(crate) fn using<T>(
        &self,
        (id, generation, owner): (&Id, i64, Option<&str>),
        work: impl FnOnce(&mut Facts, i64) -> T,
    ) -> Result<(Arc<Engine>, T), Refusal> {
        let Some(session) = self.session_of(id, owner) else { return Err(self.absent(id, generation, owner)) };
        let done = {
            let mut facts = session.facts();
            if facts.generation != generation {
                return Err(Refusal::generation(id, generation, facts.generation));
            }
            if let Some(ending) = &facts.ending {
                return Err(Refusal::ended(id, generation, &ending.reason));
            }
            work(&mut facts, self.settings().clock.awake())
        };
        Ok((session, done))
    }

    /// Says what became of a session that has no engine here, as far as this owner may know.
    fn absent(&self, id: &Id, generation: i64, owner: Option<&str>) -> Refusal {
        let known = self.known();
        let may_know = |record: &&Record| is_for(owner, record.owner_id.as_deref());
        if let Some(record) = known.records.get(id, generation).filter(may_know) {
            return Refusal::ended(id, generation, &record.ended.reason);
        }
        match known.records.newest(id).filter(may_know).map(|record| record.ended.generation) {
            Some(highest) if generation < highest => Refusal::generation(id, generation, highest),
            Some(_) | None => Refusal::not_tracked(id, generation),
        }
    }

    /// Takes note that the end stands in the store: the record is listed no more.
    pub(crate) async fn forget(&self, request: ForgetRequest) -> Result<SessionAnswer, Refusal> {
        let known = self.known().records.get(&request.session_id, request.generation).cloned();
        if let Some(record) = known.filter(|record| !record.forgotten) {
            let record = Record { forgotten: true, ..record };
            let (runner, writing) = (self.clone(), record.clone());
            let written = tokio::task::spawn_blocking(move || records::write(runner.dir(), &writing)).await;
            written
                .unwrap_or_else(|error| Err(std::io::Error::other(error)))
                .map_err(|error| Refusal::internal(format!("the record could not be marked as forgotten: {error}")))?;
            self.known().records.insert(record);
        }
        Ok(self.plain_answer(&request.session_id, request.generation))
    }
}

fn stuck(session: &Engine) -> Option<String> {
    let left = session.facts().stuck.join(", ");
    (!left.is_empty()).then(|| format!("of the engine of the session {} this cannot be killed: {left}", session.id))
}

fn trouble(session: &Engine) -> Option<String> {
    let facts = session.facts();
    let what = facts.trouble.clone().or_else(|| facts.adapter.trouble()).or_else(|| facts.disbelieved.clone())?;
    Some(format!("the engine of the session {}: {what}", session.id))
}
