//! The smaller verbs: list, health, touch, message and forget.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::oneshot;

use crate::protocol::{
    Ended, ForgetRequest, Health, MessageRequest, Origin, SessionAnswer, TouchOutcome, TouchRequest, TrackedSession,
};
use crate::runner::engine::{Engine, Facts, is_for};
use crate::runner::pump::Outgoing;
use crate::runner::records::{self, Record};
use crate::runner::refusal::Refusal;
use crate::runner::{Runner, usage};
use crate::session::Id;

/// How long an engine may take to read a message before its sender is told that it has not.
///
/// Less than a client waits for an answer, so that it hears so.
const TAKEN_WITHIN: Duration = Duration::from_secs(8);
/// How long a broken pipe may take to be explained by the engine's end.
const EXPLAINED_WITHIN: Duration = Duration::from_secs(1);

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
    pub(crate) async fn list(&self, ask: Option<String>) -> SessionsAnswer {
        let clock = &*self.settings().clock;
        let origin = self.origin();
        // Before anything is looked at: the answer is as old as its oldest part.
        let stamp = format!("{}:{}", self.epoch(), clock.elapsed());
        let (sessions, ended) = {
            let known = self.known();
            let ended = known.records.listed(clock, &self.shared.boot_id);
            (known.sessions.values().cloned().collect::<Vec<_>>(), ended)
        };
        let tracked = self.with_usage(&sessions).await;
        let state_id = self.dir().state_id.clone();
        SessionsAnswer { complete: origin.ready, origin, state_id, stamp, ask, tracked, ended }
    }

    async fn with_usage(&self, sessions: &[Arc<Engine>]) -> Vec<TrackedSession> {
        let (now, stall_after) = (self.settings().clock.awake(), self.settings().stall_after);
        let mut tracked: Vec<_> = sessions.iter().map(|session| session.tracked(now, stall_after)).collect();
        let shims: Vec<_> = sessions.iter().map(|session| session.facts().shim).collect();
        let measure = move || shims.into_iter().map(|shim| shim.map(usage::below)).collect::<Vec<_>>();
        let costs = tokio::task::spawn_blocking(measure).await.unwrap_or_default();
        for (one, cost) in tracked.iter_mut().zip(costs) {
            one.rss_bytes = cost.map(|cost| cost.rss_bytes);
            one.cpu_ms = cost.map(|cost| cost.cpu_ms);
        }
        tracked
    }

    /// Says how it is.
    pub(crate) fn health(&self) -> Health {
        let sessions: Vec<_> = self.known().sessions.values().cloned().collect();
        let engines = self.settings().engines.keys().cloned().collect();
        Health {
            origin: self.origin(),
            engines,
            sessions: sessions.len(),
            pid: Some(std::process::id()),
            damaged: self.damaged().clone(),
            stuck: sessions.iter().filter_map(|session| stuck(session)).collect(),
            troubles: Vec::new(),
        }
    }

    /// Takes note that somebody uses the session.
    pub(crate) fn touch(&self, request: &TouchRequest) -> Result<SessionAnswer, Refusal> {
        let (session, ()) =
            self.using((&request.session_id, request.generation, None), |facts, now| facts.doings.touch(now))?;
        Ok(SessionAnswer {
            origin: self.origin(),
            session: Some(session.tracked(self.settings().clock.awake(), self.settings().stall_after)),
            session_id: request.session_id.clone(),
            generation: request.generation,
            outcome: Some(TouchOutcome::Touched),
        })
    }

    /// Does something with an engine that lives, is of this generation and of this owner, under its lock.
    fn using<T>(
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

    /// Gives the engine a message, and returns once its input took it.
    pub(crate) async fn message(&self, request: MessageRequest) -> Result<SessionAnswer, Refusal> {
        let (id, generation) = (&request.session_id, request.generation);
        let (session, asked) = self.using((id, generation, request.owner_id.as_deref()), |facts, now| {
            facts.messages_on_their_way += 1;
            facts.doings.message(now)
        })?;
        let taken = self.deliver(&session, &request).await;
        {
            let mut facts = session.facts();
            facts.messages_on_their_way -= 1;
            if taken.is_err() {
                facts.doings.not_taken(asked);
            }
        }
        taken?;
        Ok(SessionAnswer {
            origin: self.origin(),
            session: None,
            session_id: request.session_id,
            generation: request.generation,
            outcome: None,
        })
    }

    async fn deliver(&self, session: &Engine, request: &MessageRequest) -> Result<(), Refusal> {
        let (id, generation) = (&request.session_id, request.generation);
        let (told, taken) = oneshot::channel();
        let outgoing =
            Outgoing { bytes: session.facts().adapter.message(&request.text).write.concat().into_bytes(), taken: told };
        if let Err(tokio::sync::mpsc::error::TrySendError::Full(_)) = session.outgoing.try_send(outgoing) {
            return Err(Refusal::busy(id, generation, "too many messages wait for the engine; none was added"));
        }
        match tokio::time::timeout(TAKEN_WITHIN, taken).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(_)) | Err(_)) => Err(broken(session, id, generation).await),
            Err(_) => {
                let message = "the engine does not read its input; the message waits there, and may be read later";
                Err(Refusal::busy(id, generation, message))
            }
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
        let (session_id, generation) = (request.session_id, request.generation);
        Ok(SessionAnswer { origin: self.origin(), session: None, session_id, generation, outcome: None })
    }
}

fn stuck(session: &Engine) -> Option<String> {
    let left = session.facts().stuck.join(", ");
    (!left.is_empty()).then(|| format!("of the engine of the session {} this cannot be killed: {left}", session.id))
}

/// Explains a pipe that took nothing: nearly always by the end of the engine, which is about to be known.
async fn broken(session: &Engine, id: &Id, generation: i64) -> Refusal {
    let _ = tokio::time::timeout(EXPLAINED_WITHIN, session.ends()).await;
    match &session.facts().ending {
        Some(ending) => Refusal::ended(id, generation, &ending.reason),
        None => Refusal::internal("the engine has closed its input, so no message reaches it").about(id, generation),
    }
}
