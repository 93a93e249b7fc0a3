//! The two things in the demonstration that have to happen at a chosen moment.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::protocol::EndRequest;
use crate::runner_client::{RunnerApi, StopAnswer, StopCall, Target, Wrapper};
use crate::session::Id;
use crate::tools::Tools;
use crate::verbs::{self, Message};

/// Somebody who writes to one session right between the worker's decision to stop it and the stop.
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

impl Wrapper for ComingBack {
    fn end<'a>(
        &'a self,
        runners: &'a dyn RunnerApi,
        target: &'a Target,
        call: &'a StopCall,
    ) -> BoxFuture<'a, StopAnswer> {
        async move {
            self.come_back(&call.request).await;
            runners.end(target, call).await
        }
        .boxed()
    }
}

/// Serves a runner whose tracked set is `null`, as one does that has lost its way.
pub(crate) fn null_runner() -> axum::Router {
    let null = || async { axum::Json(serde_json::json!({"tracked": null})) };
    axum::Router::new().route(crate::protocol::path::SESSIONS, axum::routing::get(null))
}
