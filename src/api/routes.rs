//! The one table of routes: who may come in, and how long it may take. A route that does not stand here does not exist.
//!
//! The document at `/openapi.json` is made from the same table: each operation names the scope it needs, and a test walks
//! it.

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::from_fn_with_state;
use axum::routing::MethodRouter;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem, Paths};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, Ref, ResponseBuilder};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::api::body::LONGEST_BODY;
use crate::api::error::{ApiError, ErrorBody, ErrorCode};
use crate::api::owned::Subject;
use crate::api::patience::{Patience, bound};
use crate::api::state::Shared;
use crate::api::{
    access, activity, attach, connectivity, deliveries, document, driver, end, engine_sessions, explain, feed,
    generating, health, hosts, keep, messages, metrics, output, owned, runners, runs, say, sessions, sweeps, timeline,
};
use crate::token::Scope;

/// Who may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Anybody who reaches the address; the answer tells nothing about sessions.
    Open,
    /// Whoever shows a token that allows this.
    Token(Scope),
}

/// One line of the table.
struct Line {
    access: Access,
    patience: Patience,
    routes: UtoipaMethodRouter<Shared>,
}

fn open(routes: UtoipaMethodRouter<Shared>) -> Line {
    Line { access: Access::Open, patience: Patience::Store, routes }
}

fn with(scope: Scope, patience: Patience, routes: UtoipaMethodRouter<Shared>) -> Line {
    Line { access: Access::Token(scope), patience, routes }
}

/// A new route is one line here and one handler in the file of its resource.
fn table() -> Vec<Line> {
    vec![
        open(routes!(health::healthz)),
        open(routes!(health::readyz)),
        with(Scope::Read, Patience::Store, routes!(metrics::scrape)),
        with(Scope::Read, Patience::Store, routes!(document::openapi)),
        with(Scope::Read, Patience::Store, routes!(sessions::list)),
        with(Scope::Use, Patience::Move, routes!(sessions::ensure)),
        with(Scope::Read, Patience::Store, routes!(sessions::find)),
        with(Scope::Use, Patience::Runner, routes!(activity::record)),
        with(Scope::Read, Patience::Runner, routes!(timeline::read)),
        with(Scope::Read, Patience::Runner, routes!(explain::explain)),
        with(Scope::Use, Patience::Turn, routes!(messages::send)),
        with(Scope::Use, Patience::Turn, routes!(messages::copilot)),
        with(Scope::Use, Patience::Runner, routes!(say::interrupt)),
        with(Scope::Use, Patience::Runner, routes!(say::clear)),
        with(Scope::Read, Patience::Runner, routes!(generating::generating)),
        with(Scope::Use, Patience::Stop, routes!(end::end)),
        with(Scope::Keep, Patience::Runner, routes!(keep::keep)),
        with(Scope::Read, Patience::Store, routes!(driver::show)),
        with(Scope::Use, Patience::Runner, routes!(driver::claim)),
        with(Scope::Use, Patience::Runner, routes!(driver::release)),
        with(Scope::Use, Patience::Move, routes!(runs::begin)),
        with(Scope::Read, Patience::Store, routes!(runs::list)),
        with(Scope::Read, Patience::Store, routes!(runs::find)),
        with(Scope::Use, Patience::Runner, routes!(runs::heartbeat)),
        with(Scope::Use, Patience::Finish, routes!(runs::finish)),
        with(Scope::Reap, Patience::Pass, routes!(sweeps::run)),
        with(Scope::Read, Patience::Store, routes!(sweeps::list)),
        with(Scope::Read, Patience::Store, routes!(runners::list)),
        with(Scope::Read, Patience::Runner, routes!(connectivity::all)),
        with(Scope::Read, Patience::Runner, routes!(connectivity::one)),
        with(Scope::Read, Patience::Stream, routes!(feed::listen)),
        with(Scope::Admin, Patience::Store, routes!(deliveries::list)),
        with(Scope::Read, Patience::Stream, routes!(attach::events)),
        with(Scope::Read, Patience::Runner, routes!(output::history)),
        with(Scope::Read, Patience::Runner, routes!(output::capture)),
        with(Scope::Read, Patience::Runner, routes!(engine_sessions::find)),
        with(Scope::Read, Patience::Stream, routes!(engine_sessions::events)),
    ]
}

/// The name of the token in the document.
const BEARER: &str = "bearer";

/// Returns the document that describes the routes.
pub(super) fn describe() -> utoipa::openapi::OpenApi {
    let mut router = OpenApiRouter::<Shared>::with_openapi(document::Doc::openapi());
    for line in table() {
        router = router.routes(described(line));
    }
    let mut api = router.into_openapi();
    let components = api.components.get_or_insert_default();
    components.add_security_scheme(BEARER, SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    api
}

/// Makes the routes, each behind its token and its limit, and all of them behind the guard of hosts.
pub(super) fn route(api: &Shared) -> Router {
    let mut router = OpenApiRouter::<Shared>::default();
    for line in table() {
        router = router.routes(guarded(line, api));
    }
    Router::from(router)
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(from_fn_with_state(api.clone(), hosts::guard))
        .with_state(api.clone())
}

/// Puts a line's routes behind what the line says.
fn guarded(line: Line, api: &Shared) -> UtoipaMethodRouter<Shared> {
    let (schemas, paths, mut methods): (_, _, MethodRouter<Shared>) = line.routes;
    if let Access::Token(scope) = line.access {
        // The last one that is put on is asked first: who calls, then whose is what the path names.
        methods = methods.route_layer(from_fn_with_state((api.clone(), subject(&paths)), owned::check));
        methods = methods.route_layer(from_fn_with_state((api.clone(), scope), access::require));
    }
    (schemas, paths, methods.route_layer(from_fn_with_state((api.clone(), line.patience), bound)))
}

/// Returns what the paths of a line are about; paths that are about different things are nobody's.
fn subject(paths: &Paths) -> Subject {
    let mut subjects = paths.paths.keys().map(|path| Subject::of(path));
    let first = subjects.next().unwrap_or(Subject::Unknown);
    if subjects.all(|other| other == first) { first } else { Subject::Unknown }
}

/// Adds to the description of a line's routes what the line says, and the shape of errors.
fn described(line: Line) -> UtoipaMethodRouter<Shared> {
    let access = line.access;
    let (mut schemas, mut paths, methods) = line.routes;
    schemas.push(("ErrorBody".to_owned(), <ErrorBody as utoipa::PartialSchema>::schema()));
    <ErrorBody as utoipa::ToSchema>::schemas(&mut schemas);
    for operation in paths.paths.values_mut().flat_map(operations) {
        if let Access::Token(scope) = access {
            operation.security = Some(vec![SecurityRequirement::new(BEARER, [scope.as_str()])]);
        }
        let content = Content::new(Some(Ref::from_schema_name("ErrorBody")));
        let failure = ResponseBuilder::new().description("Any failure").content("application/json", content).build();
        operation.responses.responses.insert("default".to_owned(), failure.into());
    }
    (schemas, paths, methods)
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten()
}

async fn no_route(State(api): State<Shared>, headers: HeaderMap) -> ApiError {
    known(&api, &headers, || ApiError::new(ErrorCode::Route, "there is no such route; /openapi.json lists them")).await
}

async fn no_method(State(api): State<Shared>, method: Method, headers: HeaderMap) -> ApiError {
    known(&api, &headers, || ApiError::new(ErrorCode::Method, format!("this route has no {method}"))).await
}

/// Tells what is wrong with a request only to whom has a token.
async fn known(api: &Shared, headers: &HeaderMap, error: impl FnOnce() -> ApiError) -> ApiError {
    let limit = Patience::Store.limit(&api.tools().config());
    match tokio::time::timeout(limit, access::authenticate(api, headers)).await {
        Ok(Ok(_)) => error(),
        Ok(Err(refused)) => refused,
        Err(_) => ApiError::new(ErrorCode::Timeout, "the store takes too long"),
    }
}

/// Returns how many routes there are that anybody may call.
#[cfg(test)]
fn open_routes() -> usize {
    table().iter().filter(|line| line.access == Access::Open).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::time::{SECOND, Span};
    use std::time::Duration;

    #[test]
    fn only_the_two_probes_are_open() {
        assert_eq!(open_routes(), 2);
    }

    #[test]
    fn every_path_is_about_something_that_is_checked() {
        for line in table() {
            assert_ne!(subject(&line.routes.1), Subject::Unknown, "{:?}", line.routes.1.paths.keys());
            let open = line.access == Access::Open;
            assert!(!open || subject(&line.routes.1) == Subject::Nothing, "an open route names nothing");
        }
    }

    #[test]
    fn the_document_is_ours_and_names_the_scope_of_every_other_route() {
        let mut api = describe();
        assert_eq!((api.info.title.as_str(), api.info.version.as_str()), ("Sexton", env!("CARGO_PKG_VERSION")));
        let (mut open, mut closed) = (Vec::new(), 0);
        for (path, item) in &mut api.paths.paths {
            for operation in operations(item) {
                assert!(operation.operation_id.is_some() && operation.responses.responses.contains_key("default"));
                match &operation.security {
                    None => open.push(path.clone()),
                    Some(_) => closed += 1,
                }
            }
        }
        assert_eq!(open, ["/healthz", "/readyz"]);
        assert_eq!(closed, table().len() - 2);
    }

    #[test]
    fn every_schema_that_is_referred_to_is_there() {
        let text = describe().to_json().unwrap();
        let api: serde_json::Value = serde_json::from_str(&text).unwrap();
        for piece in text.split("#/components/schemas/").skip(1) {
            let name = piece.split('"').next().unwrap();
            assert!(api["components"]["schemas"][name].is_object(), "{name}");
        }
    }

    #[test]
    fn patience_outlasts_what_it_waits_for() {
        let mut config = Config::defaults();
        assert!(Patience::Stop.limit(&config) > config.limits.end_timeout.as_std());
        for ready_wait in [5, 60] {
            config.limits.ready_wait = Span(ready_wait * SECOND);
            let (question, stop) = (config.limits.request_timeout.as_std(), config.limits.end_timeout.as_std());
            let patient = config.limits.ready_wait.as_std() + question;
            let steps = [
                ("somebody else's start is waited for", patient + question),
                ("health of the new runner", patient),
                ("what the old one holds", question),
                ("its stop", stop),
                ("the old one forgets", question),
                ("start on the new one", patient),
                ("start above what it knows", patient),
                ("the new one forgets", question),
                ("start on the old one", patient),
                ("start above what that knows", patient),
                ("the old one forgets that", question),
                ("the use by a run", question),
            ];
            let all: Duration = steps.iter().map(|(_, time)| *time).sum();
            assert!(Patience::Move.limit(&config) > all);
        }
        assert!(Patience::Turn.limit(&config) > config.runner.send_timeout.as_std());
        assert!(Patience::Pass.limit(&config) > config.schedule.pass_limit.as_std());
    }
}
