//! What the caller of a stop is answered.

use crate::protocol::{Because, EndAnswer, EndOutcome, EndRequest, Ended};
use crate::runner::Runner;
use crate::runner::engine::{Engine, is_for};
use crate::session::Id;
use crate::time::Ms;

impl Runner {
    pub(super) fn record(&self, id: &Id, generation: i64, owner: Option<&str>) -> Option<Ended> {
        let known = self.known();
        let record = known.records.get(id, generation).filter(|it| is_for(owner, it.owner_id.as_deref()));
        record.map(|it| it.told(&*self.settings().clock, &self.shared.boot_id))
    }

    /// Answers for a session that has no engine here, as far as the owner may know.
    pub(super) fn ended_before(&self, request: &EndRequest) -> EndAnswer {
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

    pub(super) fn refused(
        &self,
        session: &Engine,
        request: &EndRequest,
        because: Because,
        idle_ms: Option<Ms>,
    ) -> EndAnswer {
        let highest = self.highest(&session.id).filter(|_| because == Because::Generation);
        let plain = self.plain(request, EndOutcome::Refused);
        EndAnswer { because: Some(because), idle_ms, highest_generation: highest, ..plain }
    }

    pub(super) fn stopped(&self, outcome: EndOutcome, ended: Ended) -> EndAnswer {
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

    pub(super) fn plain(&self, request: &EndRequest, outcome: EndOutcome) -> EndAnswer {
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
