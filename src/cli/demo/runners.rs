//! The two things in the demonstration that have to happen at a chosen moment.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::protocol::{
    EndRequest, EventsRequest, FindAnswer, FindRequest, ForgetRequest, Health, HistoryAnswer, HistoryRequest,
    LiveAnswer, LiveRequest, MessageRequest, SessionRequest, StartRequest, TouchRequest, TurnOutcome,
};
use crate::runner_client::{
    EventStream, NoAnswer, Observation, OutputReply, RunnerApi, SessionReply, StopAnswer, StopCall, Target,
};
use crate::session::Id;
use crate::tools::Tools;
use crate::verbs::{self, Message};

/// The runners as they are, except that somebody writes to one session right between the worker's decision to stop it
/// and the stop.
pub(crate) struct ComingBack {
    tools: Tools,
    session: Id,
    came: AtomicBool,
}

impl ComingBack {
    pub(crate) fn new(tools: Tools, session: Id) -> Self {
        Self { tools, session, came: AtomicBool::new(false) }
    }

    async fn come_back(&self, request: &EndRequest) {
        if request.session_id == self.session
            && !self.came.swap(true, Ordering::SeqCst)
            && let Err(error) = verbs::send(&self.tools, &self.session, &Message::new("Wait, one more thing.")).await
        {
            tracing::error!(%error, "the demonstration's message was not delivered");
        }
    }
}

impl RunnerApi for ComingBack {
    fn tracked<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Observation> {
        self.tools.runners.tracked(target)
    }

    fn end<'a>(&'a self, target: &'a Target, call: &'a StopCall) -> BoxFuture<'a, StopAnswer> {
        async move {
            self.come_back(&call.request).await;
            self.tools.runners.end(target, call).await
        }
        .boxed()
    }

    fn touch<'a>(
        &'a self,
        target: &'a Target,
        request: &'a TouchRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.tools.runners.touch(target, request)
    }

    fn message<'a>(
        &'a self,
        target: &'a Target,
        request: &'a MessageRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.tools.runners.message(target, request)
    }

    fn converse<'a>(
        &'a self,
        target: &'a Target,
        request: &'a MessageRequest,
    ) -> BoxFuture<'a, Result<(SessionReply, Option<TurnOutcome>), NoAnswer>> {
        self.tools.runners.converse(target, request)
    }

    fn start<'a>(
        &'a self,
        target: &'a Target,
        request: &'a StartRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.tools.runners.start(target, request)
    }

    fn interrupt<'a>(
        &'a self,
        target: &'a Target,
        request: &'a SessionRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.tools.runners.interrupt(target, request)
    }

    fn clear<'a>(
        &'a self,
        target: &'a Target,
        request: &'a SessionRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.tools.runners.clear(target, request)
    }

    fn find<'a>(
        &'a self,
        target: &'a Target,
        request: &'a FindRequest,
    ) -> BoxFuture<'a, Result<Option<FindAnswer>, NoAnswer>> {
        self.tools.runners.find(target, request)
    }

    fn live<'a>(
        &'a self,
        target: &'a Target,
        request: &'a LiveRequest,
    ) -> BoxFuture<'a, Result<OutputReply<LiveAnswer>, NoAnswer>> {
        self.tools.runners.live(target, request)
    }

    fn history<'a>(
        &'a self,
        target: &'a Target,
        request: &'a HistoryRequest,
    ) -> BoxFuture<'a, Result<OutputReply<HistoryAnswer>, NoAnswer>> {
        self.tools.runners.history(target, request)
    }

    fn events<'a>(
        &'a self,
        target: &'a Target,
        request: &'a EventsRequest,
    ) -> BoxFuture<'a, Result<OutputReply<EventStream>, NoAnswer>> {
        self.tools.runners.events(target, request)
    }

    fn forget<'a>(
        &'a self,
        target: &'a Target,
        request: &'a ForgetRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        self.tools.runners.forget(target, request)
    }

    fn health<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<Health, NoAnswer>> {
        self.tools.runners.health(target)
    }
}

/// Serves a runner whose tracked set is `null`, as one does that has lost its way.
pub(crate) fn null_runner() -> axum::Router {
    let null = || async { axum::Json(serde_json::json!({"tracked": null})) };
    axum::Router::new().route(crate::protocol::path::SESSIONS, axum::routing::get(null))
}
