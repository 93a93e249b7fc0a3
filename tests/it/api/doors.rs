//! Who is let in: every route of the document against every way of having no right to it.

use serde_json::{Value, json};

use crate::api::{Answer, Ask, Host, ME, make_token};
use crate::support::rows::{begin_run, run};

/// A route as the document describes it.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) method: String,
    pub(super) path: String,
    /// The scope that it needs; none is open.
    pub(super) scope: Option<String>,
}

impl Route {
    /// Asks for it, about what is called that where it is about something, with a body that no route understands.
    pub(super) fn ask(&self, id: &str) -> Ask {
        Ask::new(&self.method, &self.about(id)).text("{").header("content-type", "application/json")
    }

    /// Returns its path with that id in the place of what it names.
    pub(super) fn about(&self, id: &str) -> String {
        self.path.replace("{id}", id).replace("{engine_session_id}", id)
    }

    fn names_something(&self) -> bool {
        self.path.contains("{id}")
    }
}

async fn routes(host: &Host) -> Vec<Route> {
    let document = host.get("/openapi.json").await.ok();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let scope = operation["security"][0]["bearer"][0].as_str().map(str::to_owned);
            routes.push(Route { method: method.to_uppercase(), path: path.clone(), scope });
        }
    }
    assert!(routes.len() >= 18, "{routes:?}");
    routes
}

pub(super) async fn closed_routes(host: &Host) -> Vec<Route> {
    routes(host).await.into_iter().filter(|route| route.scope.is_some()).collect()
}

/// Puts in a session, a run and a runner, all called `mine`.
async fn mine(host: &Host) {
    let session = host.world.session("mine", 0, |_| ()).await;
    host.world.enrol_url("mine", "http://127.0.0.1:1").await;
    begin_run(host.world.store(), &run("mine", &session)).await;
}

#[tokio::test]
async fn only_the_probes_answer_without_a_token() {
    let host = Host::new().await;
    for route in routes(&host).await {
        let answer = host.ask(route.ask("s")).await;
        match route.scope {
            None => assert!(["/healthz", "/readyz"].contains(&route.path.as_str()), "{route:?}"),
            Some(_) => assert_eq!(answer.error(), (401, "unauthorised".to_owned()), "{route:?}"),
        }
    }
}

#[tokio::test]
async fn a_token_that_does_not_hold_is_answered_like_none() {
    let host = Host::new().await;
    let revoked = make_token(&host.world, ME, "admin").await;
    let row = host.world.store().find_token(&sexton::token::hash(&revoked)).await.unwrap().unwrap();
    assert!(host.world.store().revoke_token(&row.id, host.world.now()).await.unwrap());
    let upper = host.token.to_uppercase();
    let bad = [
        format!("Bearer {revoked}"),
        format!("Bearer {upper}"),
        format!("Bearer {}", &host.token[..host.token.len() - 1]),
        format!("Bearer {} {}", host.token, host.token),
        format!("Basic {}", host.token),
        format!("Bearer{}", host.token),
        host.token.clone(),
        "Bearer ".to_owned(),
        format!("Bearer {}", row.hash),
        "Bearer ' OR 1=1 --".to_owned(),
    ];
    for route in closed_routes(&host).await {
        let none = host.ask(route.ask("s")).await;
        for header in &bad {
            let answer = host.ask(route.ask("s").header("authorization", header)).await;
            assert_eq!(answer, none, "{route:?} {header}");
        }
        let in_url = Ask::new(&route.method, &format!("{}?token={1}&access_token={1}", route.path, host.token));
        assert_eq!(host.ask(in_url).await.error().0, 401, "{route:?}");
    }
}

#[tokio::test]
async fn a_scope_opens_its_own_routes_only() {
    let host = Host::new().await;
    let mut tokens = Vec::new();
    for scope in ["read", "use", "reap", "admin"] {
        tokens.push((scope, make_token(&host.world, ME, scope).await));
    }
    for route in closed_routes(&host).await {
        let needed = route.scope.clone().unwrap();
        for (scope, token) in &tokens {
            let answer = host.head_of(route.ask("unknown").token(token)).await;
            if *scope == needed || *scope == "admin" || (*scope == "use" && needed == "keep") {
                assert!(![401, 403].contains(&answer.status.as_u16()), "{route:?} {scope}: {answer:?}");
            } else {
                assert_eq!(answer.error(), (403, "scope".to_owned()), "{route:?} {scope}");
            }
        }
    }
}

#[tokio::test]
async fn another_host_or_origin_is_refused_everywhere_token_or_not() {
    let host = Host::new().await;
    for route in routes(&host).await {
        let ask = route.ask("s").token(&host.token);
        for name in ["evil.example", "localhost.evil.example:7117", "127.0.0.1.nip.io", "localhost:1", "LOCALHOST"] {
            let answer = host.ask(ask.clone().header("host", name)).await;
            assert_eq!(answer.error(), (403, "host".to_owned()), "{route:?} {name}");
        }
        assert_eq!(host.ask(ask.clone().without("host")).await.error(), (403, "host".to_owned()), "{route:?}");
        for origin in ["http://evil.example", "null", "https://localhost:7117", "http://localhost:7117.evil.example"] {
            let answer = host.ask(ask.clone().header("origin", origin)).await;
            assert_eq!(answer.error(), (403, "origin".to_owned()), "{route:?} {origin}");
        }
    }
}

#[tokio::test]
async fn an_own_origin_gives_no_right() {
    let host = Host::new().await;
    let ask = Ask::new("GET", "/v1/sessions").header("origin", "http://localhost:7117");
    assert_eq!(host.ask(ask.clone()).await.error().0, 401);
    assert_eq!(host.ask(ask.token(&host.token)).await.status.as_u16(), 200);
}

#[tokio::test]
async fn an_id_of_the_wrong_shape_is_refused_before_the_body_is_looked_at() {
    let host = Host::new().await;
    let long = "x".repeat(65);
    for route in closed_routes(&host).await.iter().filter(|route| route.names_something()) {
        for id in ["a.b", "%20", "a%2Fb", "%00", "%ff", "'--", &long] {
            let answer = host.ask(route.ask(id).token(&host.token)).await;
            assert_eq!(answer.error(), (400, "bad_id".to_owned()), "{route:?} {id}");
        }
    }
}

#[tokio::test]
async fn a_row_without_an_owner_is_the_configured_ones_alone() {
    let host = Host::new().await;
    host.world.session("legacy", 0, |row| row.owner_id = None).await;
    assert_eq!(host.get("/v1/sessions/legacy").await.ok()["id"], "legacy");
    assert_eq!(host.get("/v1/sessions").await.ok()["items"][0]["id"], "legacy");
    let stranger = make_token(&host.world, "somebody", "read,use,reap").await;
    let answer = host.ask(Ask::new("GET", "/v1/sessions/legacy").token(&stranger)).await;
    assert_eq!(answer.error().0, 404);
    assert_eq!(host.ask(Ask::new("GET", "/v1/sessions").token(&stranger)).await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_body_that_is_none_is_refused_in_the_same_shape() {
    let host = Host::new().await;
    mine(&host).await;
    for route in closed_routes(&host).await.iter().filter(|route| route.method != "GET") {
        let ask = || route.ask("mine").token(&host.token);
        let refused: Vec<(&str, Ask, (u16, &str))> = vec![
            ("broken", ask(), (400, "bad_body")),
            ("a list", ask().json(&json!([])), (400, "bad_body")),
            ("an unknown key", ask().json(&json!({"surprise": 1})), (400, "bad_body")),
            ("a form", ask().header("content-type", "application/x-www-form-urlencoded"), (415, "media_type")),
            ("plain text", ask().header("content-type", "text/plain"), (415, "media_type")),
            ("too large", ask().text(vec![b' '; (1 << 20) + 1]), (413, "too_large")),
        ];
        for (what, ask, (status, code)) in refused {
            assert_eq!(host.ask(ask).await.error(), (status, code.to_owned()), "{route:?}: {what}");
        }
    }
    assert_eq!(host.world.store().list_sweeps(10).await.unwrap().len(), 0, "nothing was done");
}

#[tokio::test]
async fn the_frameworks_own_errors_have_the_same_shape() {
    let host = Host::new().await;
    let error = async |method: &str, path: &str| host.ask(Ask::new(method, path).token(&host.token)).await.error();
    assert_eq!(error("GET", "/nowhere").await, (404, "route".to_owned()));
    assert_eq!(error("GET", "/v1/sessions/a/b/c").await, (404, "route".to_owned()));
    assert_eq!(error("PATCH", "/v1/sessions").await, (405, "method".to_owned()));
    assert_eq!(error("OPTIONS", "/v1/sweeps").await, (405, "method".to_owned()));
    assert_eq!(error("POST", "/healthz").await, (405, "method".to_owned()));
    assert_eq!(error("GET", "/v1/sessions?limit=many").await, (400, "bad_query".to_owned()));
    assert_eq!(error("GET", "/v1/sessions?limit=0").await, (400, "bad_query".to_owned()));
    assert_eq!(error("GET", "/v1/sessions?limit=1001").await, (400, "bad_query".to_owned()));
    assert_eq!(error("GET", "/v1/sessions?al=true").await, (400, "bad_query".to_owned()));
    assert_eq!(error("GET", "/v1/sweeps?after=a.b").await, (400, "bad_query".to_owned()));
    let unknown: Vec<Answer> = vec![
        host.ask(Ask::new("GET", "/nowhere")).await,
        host.ask(Ask::new("PATCH", "/v1/sessions")).await,
        host.ask(Ask::new("GET", "/v1/sessions")).await,
    ];
    assert!(unknown.iter().all(|answer| answer.body == unknown[0].body && answer.status == 401), "{unknown:?}");
    assert_eq!(unknown[0].headers["www-authenticate"], "Bearer");
}

#[tokio::test]
async fn a_store_that_fails_is_503_and_names_no_file() {
    let host = Host::new().await;
    host.world.store().close().await;
    for path in ["/v1/sessions", "/v1/sessions/s", "/readyz", "/nowhere"] {
        let answer = host.get(path).await;
        assert_eq!(answer.error(), (503, "store".to_owned()), "{path}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("sexton.db"), "{answer:?}");
    }
    assert_eq!(host.get("/healthz").await.ok(), json!({"status": "ok"}));
}

#[tokio::test]
async fn no_route_takes_a_command() {
    let host = Host::new().await;
    let document = host.get("/openapi.json").await.ok();
    let schemas: &Value = &document["components"]["schemas"];
    let text = schemas.to_string();
    assert!(!text.contains("\"command\"") && !text.contains("\"args\"") && !text.contains("\"env\""), "{text}");
}
