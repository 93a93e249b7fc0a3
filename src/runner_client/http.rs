//! [`RunnerApi`] over HTTP, with one shared connection pool.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::Certificate;
use reqwest::redirect::Policy;
use serde::Serialize;

use crate::protocol::tracked::{Reading, read_tracked, says_not_ready};
use crate::protocol::{
    EventsRequest, FindAnswer, FindRequest, ForgetRequest, Health, HistoryAnswer, HistoryRequest, LiveAnswer,
    LiveRequest, MessageRequest, SessionRequest, StartRequest, TouchRequest, TurnOutcome, path,
};
use crate::runner_client::events::EventStream;
use crate::runner_client::exchange::{Exchange, Opened, Question, Reply};
use crate::runner_client::output::{read_output, refused};
use crate::runner_client::session::{About, read_find, read_health, read_session, read_turn};
use crate::runner_client::{NoAnswer, Observation, OutputReply, RunnerApi, SessionReply, StopAnswer, StopCall, Target};
use crate::runner_client::{end, reach};
use crate::time::Span;

/// Idle connections are closed before common servers do so (Node: 5 s), since a request that meets a closing connection
/// is lost without an answer.
const KEPT_IDLE: Duration = Duration::from_secs(4);

/// The limits of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientSettings {
    /// How long connecting may take.
    pub connect_timeout: Span,
    /// How long a question may take, connecting and the last byte of the answer included.
    pub timeout: Span,
    /// The same for `end`: the runner's stop ladder, and some time to prove that all is gone.
    pub end_timeout: Span,
    /// How long the turn of a message that is waited for may take beside that: as long as runners let anybody wait.
    pub send_timeout: Span,
    /// The most bytes of an answer that are read.
    pub response_bytes: usize,
}

/// Runners that are asked over HTTP.
///
/// It follows no redirect, uses no proxy (a runner's secret goes to the runner alone), keeps no cookies and decompresses
/// nothing.
#[derive(Debug, Clone)]
pub struct HttpRunners {
    exchange: Exchange,
    timeout: Duration,
    end_timeout: Duration,
    turn_timeout: Duration,
}

impl HttpRunners {
    /// Makes the client. A machine without certificates of authorities can still ask over `http`.
    ///
    /// # Errors
    /// One sentence, when the HTTP library cannot be set up.
    pub fn new(settings: &ClientSettings) -> Result<Self, String> {
        Self::trusting(settings, &[])
    }

    /// Makes the client, which also believes runners that show one of the certificates in `roots` (PEM, any number), or one
    /// that these vouch for.
    ///
    /// # Errors
    /// One sentence, when the HTTP library cannot be set up, or `roots` is not empty and holds no certificate.
    pub fn trusting(settings: &ClientSettings, roots: &[u8]) -> Result<Self, String> {
        // A second installation is refused, and then the first one serves.
        drop(rustls::crypto::ring::default_provider().install_default());
        let connect_timeout = settings.connect_timeout.as_std();
        let roots = certificates(roots)?;
        let builder = || {
            reqwest::Client::builder()
                .user_agent(concat!("sexton/", env!("CARGO_PKG_VERSION")))
                .redirect(Policy::none())
                .referer(false)
                .no_proxy()
                .dns_resolver(reach::SystemResolver)
                .connect_timeout(connect_timeout)
                .pool_idle_timeout(KEPT_IDLE)
                .tcp_keepalive(Duration::from_secs(30))
        };
        let client = builder()
            .tls_certs_merge(roots.clone())
            .build()
            .or_else(|_| builder().tls_certs_only(roots).build())
            .map_err(|error| format!("the HTTP client cannot be set up: {}", reach::root(&error)))?;
        let exchange = Exchange { client, connect_timeout, response_bytes: settings.response_bytes };
        let timeout = settings.timeout.as_std();
        let turn_timeout = timeout + settings.send_timeout.as_std();
        Ok(Self { exchange, timeout, end_timeout: settings.end_timeout.as_std(), turn_timeout })
    }

    async fn observe(&self, target: &Target) -> Result<Observation, NoAnswer> {
        // Random, so that no answer to an earlier question, cached or late, can pass for this one.
        let ask = uuid::Uuid::new_v4().simple().to_string();
        let question = Question::get(format!("{}?ask={ask}", path::SESSIONS), self.timeout);
        let reply = self.exchange.ask(target, question).await?;
        let (answer, expected) = (reply.as_answer(), target.expected(&ask));
        Ok(match read_tracked(&answer, &expected) {
            Reading::Unrecognised(why) if says_not_ready(&answer, &expected) => Observation::NotReady(why),
            reading @ (Reading::Tracked(_) | Reading::Unknown(_) | Reading::Unrecognised(_)) => reading.into(),
        })
    }

    async fn stop(&self, target: &Target, call: &StopCall) -> Result<StopAnswer, NoAnswer> {
        let question = Question::post(path::END, &end::body(target, &call.request), self.end_timeout)?;
        let reply = self.exchange.ask(target, question).await?;
        Ok(end::read_end(&reply, target, call))
    }

    async fn get<T: Serialize>(&self, target: &Target, path: &str, query: &T) -> Result<Reply, NoAnswer> {
        self.exchange.ask(target, Question::get(with_query(path, query)?, self.timeout)).await
    }

    async fn post<T: Serialize>(&self, target: &Target, path: &str, body: &T) -> Result<Reply, NoAnswer> {
        self.exchange.ask(target, Question::post(path, body, self.timeout)?).await
    }

    async fn say<T: Serialize>(
        &self,
        target: &Target,
        path: &str,
        body: &T,
        about: About<'_>,
    ) -> Result<SessionReply, NoAnswer> {
        read_session(&self.post(target, path, body).await?, target, about)
    }
}

impl RunnerApi for HttpRunners {
    fn tracked<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Observation> {
        async { self.observe(target).await.unwrap_or_else(Observation::from) }.boxed()
    }

    fn end<'a>(&'a self, target: &'a Target, call: &'a StopCall) -> BoxFuture<'a, StopAnswer> {
        async { self.stop(target, call).await.unwrap_or_else(StopAnswer::from) }.boxed()
    }

    fn touch<'a>(
        &'a self,
        target: &'a Target,
        request: &'a TouchRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        let about = About { session_id: &request.session_id, generation: request.generation };
        self.say(target, path::TOUCH, request, about).boxed()
    }

    fn message<'a>(
        &'a self,
        target: &'a Target,
        request: &'a MessageRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        let about = About { session_id: &request.session_id, generation: request.generation };
        self.say(target, path::MESSAGES, request, about).boxed()
    }

    fn converse<'a>(
        &'a self,
        target: &'a Target,
        request: &'a MessageRequest,
    ) -> BoxFuture<'a, Result<(SessionReply, Option<TurnOutcome>), NoAnswer>> {
        let about = About { session_id: &request.session_id, generation: request.generation };
        async move {
            let question = Question::post(path::MESSAGES, request, self.turn_timeout)?;
            read_turn(&self.exchange.ask(target, question).await?, target, about)
        }
        .boxed()
    }

    fn start<'a>(
        &'a self,
        target: &'a Target,
        request: &'a StartRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        let about = About { session_id: &request.session_id, generation: request.generation };
        self.say(target, path::START, request, about).boxed()
    }

    fn interrupt<'a>(
        &'a self,
        target: &'a Target,
        request: &'a SessionRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        let about = About { session_id: &request.session_id, generation: request.generation };
        self.say(target, path::INTERRUPT, request, about).boxed()
    }

    fn clear<'a>(
        &'a self,
        target: &'a Target,
        request: &'a SessionRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        let about = About { session_id: &request.session_id, generation: request.generation };
        self.say(target, path::CLEAR, request, about).boxed()
    }

    fn find<'a>(
        &'a self,
        target: &'a Target,
        request: &'a FindRequest,
    ) -> BoxFuture<'a, Result<Option<FindAnswer>, NoAnswer>> {
        async {
            let reply = self.get(target, path::FIND, request).await?;
            read_find(&reply, target, &request.engine_session_id)
        }
        .boxed()
    }

    fn live<'a>(
        &'a self,
        target: &'a Target,
        request: &'a LiveRequest,
    ) -> BoxFuture<'a, Result<OutputReply<LiveAnswer>, NoAnswer>> {
        async { read_output(&self.get(target, path::LIVE, request).await?, target, &request.session_id) }.boxed()
    }

    fn history<'a>(
        &'a self,
        target: &'a Target,
        request: &'a HistoryRequest,
    ) -> BoxFuture<'a, Result<OutputReply<HistoryAnswer>, NoAnswer>> {
        async { read_output(&self.get(target, path::HISTORY, request).await?, target, &request.session_id) }.boxed()
    }

    fn events<'a>(
        &'a self,
        target: &'a Target,
        request: &'a EventsRequest,
    ) -> BoxFuture<'a, Result<OutputReply<EventStream>, NoAnswer>> {
        async {
            let question = Question::get(with_query(path::EVENTS, request)?, self.timeout);
            match self.exchange.open(target, question).await? {
                Opened::Events(response) => Ok(OutputReply::There(EventStream::of(response))),
                Opened::Refused(reply) => refused(&reply, target, &request.session_id),
            }
        }
        .boxed()
    }

    fn forget<'a>(
        &'a self,
        target: &'a Target,
        request: &'a ForgetRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>> {
        let about = About { session_id: &request.session_id, generation: request.generation };
        self.say(target, path::FORGET, request, about).boxed()
    }

    fn health<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<Health, NoAnswer>> {
        async {
            let question = Question::get(path::HEALTH.to_owned(), self.timeout);
            read_health(&self.exchange.ask(target, question).await?, target)
        }
        .boxed()
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<Certificate>, String> {
    let read = Certificate::from_pem_bundle(pem).ok().filter(|read| pem.is_empty() || !read.is_empty());
    read.ok_or_else(|| "the certificates for runners (server.runner_ca) are none in PEM".to_owned())
}

/// Writes a request as the query of a path.
fn with_query<T: Serialize>(path: &str, request: &T) -> Result<String, NoAnswer> {
    let query = serde_urlencoded::to_string(request);
    let query = query.map_err(|why| NoAnswer::Unanswered(format!("the question cannot be written: {why}")))?;
    Ok(format!("{path}?{query}"))
}
