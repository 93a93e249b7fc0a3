//! Runners as they are, but that something happens around a question to them: for a demonstration and for tests, which
//! need a chosen moment. Nothing here asks anybody by itself.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::protocol::{
    EventsRequest, FindAnswer, FindRequest, ForgetRequest, Health, HistoryAnswer, HistoryRequest, LiveAnswer,
    LiveRequest, MessageRequest, SessionRequest, StartRequest, TouchRequest, TurnOutcome,
};
use crate::runner_client::{
    EventStream, NoAnswer, Observation, OutputReply, RunnerApi, SessionReply, StopAnswer, StopCall, Target,
};

/// What happens around the questions of a pass; each is asked as it is unless a wrapper says otherwise.
pub trait Wrapper: Send + Sync {
    /// Stands around [`RunnerApi::tracked`].
    fn tracked<'a>(&'a self, runners: &'a dyn RunnerApi, target: &'a Target) -> BoxFuture<'a, Observation> {
        runners.tracked(target)
    }

    /// Stands around [`RunnerApi::end`].
    fn end<'a>(
        &'a self,
        runners: &'a dyn RunnerApi,
        target: &'a Target,
        call: &'a StopCall,
    ) -> BoxFuture<'a, StopAnswer> {
        runners.end(target, call)
    }
}

/// Runners with a wrapper around them.
pub struct Wrapped<W> {
    runners: Arc<dyn RunnerApi>,
    wrapper: W,
}

impl<W: Wrapper> Wrapped<W> {
    /// Puts a wrapper around runners.
    #[must_use]
    pub fn new(runners: Arc<dyn RunnerApi>, wrapper: W) -> Self {
        Self { runners, wrapper }
    }
}

impl<W: Wrapper> RunnerApi for Wrapped<W> {
    fn tracked<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Observation> {
        self.wrapper.tracked(&*self.runners, target)
    }

    fn end<'a>(&'a self, target: &'a Target, call: &'a StopCall) -> BoxFuture<'a, StopAnswer> {
        self.wrapper.end(&*self.runners, target, call)
    }

    fn touch<'a>(
        &'a self,
        target: &'a Target,
        request: &'a TouchRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.runners.touch(target, request)
    }

    fn message<'a>(
        &'a self,
        target: &'a Target,
        request: &'a MessageRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.runners.message(target, request)
    }

    fn converse<'a>(
        &'a self,
        target: &'a Target,
        request: &'a MessageRequest,
    ) -> BoxFuture<'a, Result<(SessionReply, Option<TurnOutcome>), NoAnswer>> {
        self.runners.converse(target, request)
    }

    fn start<'a>(
        &'a self,
        target: &'a Target,
        request: &'a StartRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.runners.start(target, request)
    }

    fn interrupt<'a>(
        &'a self,
        target: &'a Target,
        request: &'a SessionRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.runners.interrupt(target, request)
    }

    fn clear<'a>(
        &'a self,
        target: &'a Target,
        request: &'a SessionRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.runners.clear(target, request)
    }

    fn find<'a>(
        &'a self,
        target: &'a Target,
        request: &'a FindRequest,
    ) -> BoxFuture<'a, Result<Option<FindAnswer>, NoAnswer>> {
        self.runners.find(target, request)
    }

    fn live<'a>(
        &'a self,
        target: &'a Target,
        request: &'a LiveRequest,
    ) -> BoxFuture<'a, Result<OutputReply<LiveAnswer>, NoAnswer>> {
        self.runners.live(target, request)
    }

    fn history<'a>(
        &'a self,
        target: &'a Target,
        request: &'a HistoryRequest,
    ) -> BoxFuture<'a, Result<OutputReply<HistoryAnswer>, NoAnswer>> {
        self.runners.history(target, request)
    }

    fn events<'a>(
        &'a self,
        target: &'a Target,
        request: &'a EventsRequest,
    ) -> BoxFuture<'a, Result<OutputReply<EventStream>, NoAnswer>> {
        self.runners.events(target, request)
    }

    fn forget<'a>(
        &'a self,
        target: &'a Target,
        request: &'a ForgetRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.runners.forget(target, request)
    }

    fn health<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<Health, NoAnswer>> {
        self.runners.health(target)
    }
}
