//! The routes of `/coding`. Every answer, the framework's own refusals included, says who answers.

use std::any::Any;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde::de::DeserializeOwned;
use tower_http::catch_panic::CatchPanicLayer;

use crate::network::Names;
use crate::protocol::{
    Cursor, EndOutcome, EndRequest, EventsRequest, FailureOutcome, FindRequest, ForgetRequest, HistoryRequest,
    ListRequest, LiveRequest, MessageRequest, SessionRequest, StartRequest, TouchRequest, path,
};
use crate::runner::refusal::Refusal;
use crate::runner::{Runner, auth};

/// A message may be long, nothing else is.
const BODY_MOST: usize = 8 * 1024 * 1024;

/// Makes the router.
pub(crate) fn router(runner: Runner, names: Names) -> Router {
    let panicking = runner.clone();
    Router::new()
        .route(path::HEALTH, get(health))
        .route(path::SESSIONS, get(sessions))
        .route(path::START, post(start))
        .route(path::MESSAGES, post(messages))
        .route(path::TOUCH, post(touch))
        .route(path::FORGET, post(forget))
        .route(path::END, post(end))
        .route(path::INTERRUPT, post(interrupt))
        .route(path::CLEAR, post(clear))
        .route(path::EVENTS, get(events))
        .route(path::LIVE, get(live))
        .route(path::HISTORY, get(history))
        .route(path::FIND, get(find))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state((runner.clone(), names), auth::check))
        .layer(DefaultBodyLimit::max(BODY_MOST))
        .layer(CatchPanicLayer::custom(move |_: Box<dyn Any + Send>| {
            Refused(panicking.clone(), Refusal::internal("the runner hit a fault of its own")).into_response()
        }))
        .with_state(runner)
}

/// A refusal, with who refuses.
pub(crate) struct Refused(pub Runner, pub Refusal);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(runner, refusal) = self;
        (refusal.status, Json(refusal.into_failure(runner.origin()))).into_response()
    }
}

/// The body of a request to a runner that is ready.
struct Body<T>(T);

impl<T: DeserializeOwned> FromRequest<Runner> for Body<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, runner: &Runner) -> Result<Self, Refused> {
        let refused = |refusal| Refused(runner.clone(), refusal);
        let bytes = Bytes::from_request(request, runner).await.map_err(|error| refused(unreadable(&error)))?;
        let body = serde_json::from_slice(&bytes);
        let body = body.map_err(|error| refused(Refusal::bad(format!("the body cannot be understood: {error}"))))?;
        runner.knows_its_engines().map_err(refused)?;
        Ok(Self(body))
    }
}

/// The query of a request.
struct Asked<T>(T);

impl<T: DeserializeOwned> FromRequestParts<Runner> for Asked<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, runner: &Runner) -> Result<Self, Refused> {
        let query = Query::<T>::from_request_parts(parts, runner).await;
        let understood = query.map(|Query(request)| Self(request));
        understood
            .map_err(|error| Refused(runner.clone(), Refusal::bad(format!("the query cannot be understood: {error}"))))
    }
}

impl Runner {
    fn knows_its_engines(&self) -> Result<(), Refusal> {
        if self.is_ready() { Ok(()) } else { Err(Refusal::not_ready("the runner does not know its engines again yet")) }
    }
}

fn unreadable(error: &BytesRejection) -> Refusal {
    Refusal::new(error.status(), FailureOutcome::BadRequest, format!("the body cannot be read: {error}"))
}

async fn health(State(runner): State<Runner>) -> Response {
    Json(runner.health()).into_response()
}

async fn sessions(State(runner): State<Runner>, Asked(request): Asked<ListRequest>) -> Response {
    Json(runner.list(request).await).into_response()
}

async fn find(State(runner): State<Runner>, Asked(request): Asked<FindRequest>) -> Response {
    if let Err(refusal) = runner.knows_its_engines() {
        return Refused(runner, refusal).into_response();
    }
    let found = runner.find(&request);
    answered(runner, found)
}

async fn live(State(runner): State<Runner>, Asked(request): Asked<LiveRequest>) -> Response {
    if let Err(refusal) = runner.knows_its_engines() {
        return Refused(runner, refusal).into_response();
    }
    let live = runner.live(&request).await;
    answered(runner, live)
}

async fn history(State(runner): State<Runner>, Asked(request): Asked<HistoryRequest>) -> Response {
    if let Err(refusal) = runner.knows_its_engines() {
        return Refused(runner, refusal).into_response();
    }
    let page = runner.history(request).await;
    answered(runner, page)
}

async fn events(
    State(runner): State<Runner>,
    headers: HeaderMap,
    Asked(mut request): Asked<EventsRequest>,
) -> Response {
    match last_event(&headers) {
        Ok(last) => request.cursor = last.or(request.cursor),
        Err(refusal) => return Refused(runner, refusal).into_response(),
    }
    if let Err(refusal) = runner.knows_its_engines() {
        return Refused(runner, refusal).into_response();
    }
    match runner.events(request).await {
        Ok(stream) => stream.into_response(),
        Err(refusal) => Refused(runner, refusal).into_response(),
    }
}

/// Reads what a client that comes back by itself, as a browser's source of events does, says in a header. What cannot be
/// understood is refused: it would be told everything once more.
fn last_event(headers: &HeaderMap) -> Result<Option<Cursor>, Refusal> {
    let mut values = headers.get_all("Last-Event-ID").iter();
    let Some(first) = values.next() else { return Ok(None) };
    let cursor = first.to_str().ok().and_then(|id| id.parse().ok()).filter(|_| values.next().is_none());
    let bad = || Refusal::bad("Last-Event-ID must stand there once and be the id of an event: only these are cursors");
    cursor.map(Some).ok_or_else(bad)
}

async fn interrupt(State(runner): State<Runner>, Body(request): Body<SessionRequest>) -> Response {
    let asking = runner.clone();
    answered(runner, detached(async move { asking.interrupt(request).await }).await)
}

async fn clear(State(runner): State<Runner>, Body(request): Body<SessionRequest>) -> Response {
    let asking = runner.clone();
    answered(runner, detached(async move { asking.clear(request).await }).await)
}

async fn start(State(runner): State<Runner>, Body(request): Body<StartRequest>) -> Response {
    let starting = runner.clone();
    answered(runner, detached(async move { starting.start(request).await }).await)
}

async fn messages(State(runner): State<Runner>, Body(request): Body<MessageRequest>) -> Response {
    let delivering = runner.clone();
    answered(runner, detached(async move { delivering.message(request).await }).await)
}

async fn touch(State(runner): State<Runner>, Body(request): Body<TouchRequest>) -> Response {
    let touched = runner.touch(&request).await;
    answered(runner, touched)
}

async fn forget(State(runner): State<Runner>, Body(request): Body<ForgetRequest>) -> Response {
    let forgotten = runner.forget(request).await;
    answered(runner, forgotten)
}

async fn end(State(runner): State<Runner>, Body(request): Body<EndRequest>) -> Response {
    let ending = runner.clone();
    match detached(async move { ending.end(request).await }).await {
        Ok(answer) => {
            let status = match answer.outcome {
                EndOutcome::Stopped | EndOutcome::AlreadyStopped => StatusCode::OK,
                EndOutcome::NotTracked => StatusCode::NOT_FOUND,
                EndOutcome::Refused => StatusCode::CONFLICT,
                EndOutcome::Accepted => StatusCode::ACCEPTED,
            };
            (status, Json(answer)).into_response()
        }
        Err(refusal) => Refused(runner, refusal).into_response(),
    }
}

/// Runs a verb to its end, also when the caller hangs up in its middle.
async fn detached<T: Send + 'static>(
    verb: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::spawn(verb).await;
    done.unwrap_or_else(|_| Err(Refusal::internal("the runner hit a fault of its own")))
}

fn answered<T: serde::Serialize>(runner: Runner, result: Result<T, Refusal>) -> Response {
    match result {
        Ok(answer) => Json(answer).into_response(),
        Err(refusal) => Refused(runner, refusal).into_response(),
    }
}

async fn no_route(State(runner): State<Runner>) -> Refused {
    Refused(runner, Refusal::new(StatusCode::NOT_FOUND, FailureOutcome::BadRequest, "there is no such route"))
}

async fn no_method(State(runner): State<Runner>) -> Refused {
    Refused(
        runner,
        Refusal::new(StatusCode::METHOD_NOT_ALLOWED, FailureOutcome::BadRequest, "the route has no such method"),
    )
}

#[cfg(test)]
mod tests {
    use axum::body::Body as Bytes;
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt;

    use super::*;
    use crate::runner::Settings;

    async fn asked(runner: &Runner, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).header("Host", "localhost");
        let request = request.header("Authorization", "Bearer s").body(Bytes::from(body.to_string())).unwrap();
        let names = Names::new("127.0.0.1:7118".parse().unwrap(), &[], false);
        let answer = router(runner.clone(), names).oneshot(request).await.unwrap();
        let status = answer.status();
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn before_it_knows_its_engines_it_says_so_and_decides_nothing() {
        let home = tempfile::tempdir().unwrap();
        let runner = Runner::open(Settings::in_home(home.path())).unwrap();
        let (status, list) = asked(&runner, "GET", path::SESSIONS, Value::Null).await;
        assert_eq!((status, &list["ready"], &list["complete"]), (StatusCode::OK, &json!(false), &json!(false)));
        let body = json!({"session_id": "s1", "generation": 1, "mode": "force", "reason": "stray"});
        let (status, answer) = asked(&runner, "POST", path::END, body).await;
        assert_eq!((status, &answer["outcome"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("not_ready")));
        runner.recover(&CancellationToken::new()).await;
        let (_, list) = asked(&runner, "GET", "/coding/sessions?x=1&ask=a-b_c", Value::Null).await;
        assert_eq!((&list["ready"], &list["complete"], &list["ask"]), (&json!(true), &json!(true), &json!("a-b_c")));
    }
}
