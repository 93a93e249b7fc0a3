//! Whose is what a path names: every route of the document against every caller there is, and what each of them learns.
//!
//! The table is made from the document itself, so a new route stands in it by being there; one whose path names something
//! of a new kind fails here until [`Scene`] has one of each owner's.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sexton::api;
use sexton::session::{Run, RunStatus, Session};
use sexton::time::HOUR;
use sexton::token;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::api::doors::{Route, closed_routes};
use crate::api::{Answer, Ask, Host, ME, make_token};
use crate::support::fake_runner::FakeRunner;
use crate::support::rows::begin_run;
use crate::support::world::{id, silent};

/// What a route's path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Nothing,
    Session,
    EngineSession,
    Run,
    Runner,
}

/// How the paths begin that name something.
const BEGINNINGS: [(&str, Named); 4] = [
    ("/v1/sessions/{id}", Named::Session),
    ("/v1/engine-sessions/{engine_session_id}", Named::EngineSession),
    ("/v1/runs/{id}", Named::Run),
    ("/v1/runners/{id}", Named::Runner),
];

impl Named {
    fn by(route: &Route) -> Self {
        let path = &route.path;
        let known = BEGINNINGS.iter().find(|(beginning, _)| path.starts_with(beginning));
        let parameters = path.matches('{').count();
        match known {
            Some((_, named)) if parameters == 1 => *named,
            None if parameters == 0 => Self::Nothing,
            _ => panic!("{path} names something that this test does not know: put one of each owner's into its scene"),
        }
    }

    /// Whether it is some owner's; a runner is everybody's.
    fn is_owned(self) -> bool {
        matches!(self, Self::Session | Self::EngineSession | Self::Run)
    }
}

/// A worker with a session, its conversation and a run of two owners each, called `mine` and `theirs`, and a runner called `mine`.
struct Scene {
    host: Host,
    runner: FakeRunner,
    /// A token of the owner of `mine`.
    own: String,
    /// A token of the owner of `theirs`.
    other: String,
}

/// What a caller may who is no administrator.
const SCOPES: &str = "read,use,reap";

impl Scene {
    async fn set() -> Self {
        let host = Host::new().await;
        let runner = host.world.runner().await;
        host.world.enrol(&runner, "mine").await;
        for (name, owner) in [("mine", ME), ("theirs", "somebody"), ("second", ME)] {
            let own = |row: &mut Session| {
                (row.owner_id, row.engine_session_id) = (Some(owner.to_owned()), Some(name.to_owned()));
            };
            let session = host.world.session(name, 0, own).await;
            runner.hold_engine(&session.id, 1, silent(0));
            let run = Run {
                id: id(name),
                session_id: session.id,
                status: RunStatus::Running,
                opened_session: false,
                started_at: host.world.now(),
                heartbeat_at: None,
                finished_at: None,
                stale_at: None,
                result: None,
            };
            begin_run(host.world.store(), &run).await;
        }
        let own = make_token(&host.world, ME, SCOPES).await;
        let other = make_token(&host.world, "somebody", SCOPES).await;
        Self { host, runner, own, other }
    }

    /// Returns every route behind a token, with each of its methods: who may read may also ask for the headers alone.
    async fn routes(&self) -> Vec<Route> {
        let routes = closed_routes(&self.host).await;
        let heads = routes.clone().into_iter().filter(|route| route.method == "GET");
        let heads = heads.map(|route| Route { method: "HEAD".to_owned(), ..route }).collect::<Vec<_>>();
        routes.into_iter().chain(heads).collect()
    }

    /// Asks, and returns the status and, of an error that tells one, its code. What streams is not read.
    async fn status(&self, ask: Ask) -> (u16, String) {
        let answer = self.host.head_of(ask).await;
        let code = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
        (answer.status.as_u16(), code["error"]["code"].as_str().unwrap_or_default().to_owned())
    }

    /// Makes the token that the engine of a session has.
    async fn lease(&self, session: &str) -> String {
        let row = self.host.world.store().find_session(&id(session)).await.unwrap().unwrap();
        let (row, secret) = token::create_lease(&row, self.host.world.now()).unwrap();
        self.host.world.store().insert_token(&row).await.unwrap();
        secret.expose().to_owned()
    }
}

/// The ways in which a request may differ where nothing of it may matter yet.
fn shapes(route: &Route, id: &str) -> [Ask; 4] {
    let plain = Ask::new(&route.method, &route.about(id));
    let queried = Ask::new(&route.method, &format!("{}?limit=many&surprise=1", route.about(id)));
    [plain.clone(), plain.json(&json!({})), route.ask(id), queried]
}

/// Whether a status and code say that there is nothing of this id.
fn is_unknown((status, code): &(u16, String), route: &Route) -> bool {
    *status == 404 && (code == "not_found" || route.method == "HEAD")
}

#[tokio::test]
async fn every_route_answers_each_caller_as_it_must() {
    let scene = Scene::set().await;
    for route in scene.routes().await {
        let named = Named::by(&route);
        let scope: token::Scope = route.scope.as_deref().unwrap().parse().unwrap();
        let scopes: token::Scopes = SCOPES.parse().unwrap();
        for (caller, secret) in [
            ("owner", Some(&scene.own)),
            ("other", Some(&scene.other)),
            ("admin", Some(&scene.host.token)),
            ("nobody", None),
        ] {
            for id in ["mine", "unknown"] {
                let ask = route.ask(id);
                let status = scene.status(secret.into_iter().fold(ask, |ask, secret| ask.token(secret))).await;
                let what = format!("{route:?} {caller} {id}: {status:?}");
                if secret.is_none() {
                    assert_eq!(status.0, 401, "{what}");
                } else if caller != "admin" && !scopes.allow(scope) {
                    assert_eq!(status.0, 403, "{what}");
                } else if named == Named::Nothing || (id == "mine" && (caller != "other" || !named.is_owned())) {
                    assert!(![401, 403].contains(&status.0), "{what}");
                    assert!(!is_unknown(&status, &route) || named == Named::Nothing, "{what}");
                } else {
                    assert!(is_unknown(&status, &route), "{what}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_foreign_id_is_answered_as_an_unknown_one_in_status_headers_and_body() {
    let scene = Scene::set().await;
    let session = scene.host.world.store().find_session(&id("theirs")).await.unwrap();
    let before = scene.host.world.dump().await;
    let mut looked_at = BTreeSet::new();
    for route in scene.routes().await.iter().filter(|route| Named::by(route).is_owned()) {
        for (foreign, unknown) in shapes(route, "theirs").into_iter().zip(shapes(route, "unknown")) {
            let foreign = scene.host.ask(foreign.token(&scene.own)).await;
            let unknown = scene.host.ask(unknown.token(&scene.own)).await;
            assert_eq!(foreign.status, 404, "{route:?}: {foreign:?}");
            assert!(route.method == "HEAD" || foreign.code() == "not_found", "{route:?}");
            assert_eq!(foreign, unknown, "{route:?}");
        }
        looked_at.insert((Named::by(route), route.method.clone()));
    }
    for method in ["GET", "HEAD", "POST", "DELETE"] {
        assert!(looked_at.contains(&(Named::Session, method.to_owned())), "{looked_at:?}");
    }
    assert_eq!(
        scene.host.world.store().find_session(&id("theirs")).await.unwrap(),
        session,
        "nothing of it was touched"
    );
    let kept =
        |dump: &str| dump.lines().filter(|line| !line.starts_with("workers")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(kept(&scene.host.world.dump().await), kept(&before), "nothing was written");
    // A conversation that the store does not know is asked for, which this runner knows no route for.
    assert!(scene.runner.calls().is_empty(), "no runner was asked for anything else");
}

/// Sends a request over a connection of its own, and returns the answer's bytes without the time of day.
async fn raw(address: std::net::SocketAddr, route: &Route, id: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let path = route.about(id);
    let request = format!(
        "{} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        route.method
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().filter(|line| !line.to_ascii_lowercase().starts_with("date: ")).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_foreign_id_is_answered_as_an_unknown_one_on_the_wire() {
    let scene = Scene::set().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let tools = scene.host.world.second_process().await;
    let served = tokio::spawn(api::serve(tools, ME.to_owned(), listener, stop.clone()));
    for route in scene.routes().await.iter().filter(|route| Named::by(route).is_owned()) {
        let foreign = raw(address, route, "theirs", &scene.own).await;
        assert!(foreign.starts_with("HTTP/1.1 404 ") && foreign.contains("content-length: "), "{route:?}: {foreign}");
        assert_eq!(foreign, raw(address, route, "unknown", &scene.own).await, "{route:?}");
    }
    stop.cancel();
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn lists_show_ones_own_and_those_of_all_to_an_administrator() {
    let scene = Scene::set().await;
    scene.host.world.session("legacy", HOUR, |row| row.owner_id = None).await;
    let listed = async |token: &str, query: &str| {
        let list = scene.host.ask(Ask::new("GET", &format!("/v1/sessions{query}")).token(token)).await.ok();
        let ids = list["items"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed(&scene.own, "?all=true").await, ["legacy", "mine", "second"], "and the rows without an owner");
    assert_eq!(listed(&scene.other, "?all=true").await, ["theirs"]);
    assert_eq!(listed(&scene.host.token, "").await, ["legacy", "mine", "second", "theirs"]);
    assert_eq!(listed(&scene.host.token, "?owner=somebody").await, ["theirs"]);
    assert_eq!(listed(&scene.own, "?owner=somebody").await, Vec::<String>::new());
}

#[tokio::test]
async fn the_token_of_an_engine_opens_one_door_of_one_session() {
    let scene = Scene::set().await;
    let lease = scene.lease("mine").await;
    let keeps = |route: &Route| route.method == "POST" && route.path == "/v1/sessions/{id}/keep";
    let mut opened = 0;
    for route in scene.routes().await {
        let about = async |id: &str| -> Answer { scene.host.head_of(route.ask(id).token(&lease)).await };
        if !keeps(&route) {
            for id in ["mine", "theirs", "unknown"] {
                assert_eq!(about(id).await.status, 403, "{route:?} {id}");
            }
            continue;
        }
        opened += 1;
        assert_eq!(about("mine").await.error(), (400, "bad_body".to_owned()));
        let unknown = about("unknown").await;
        assert_eq!(unknown.error(), (404, "not_found".to_owned()));
        for other in ["theirs", "second"] {
            assert_eq!(about(other).await, unknown, "{other} is another session, whosever it is");
        }
        let stranger = scene.host.ask(route.ask("theirs").token(&scene.own)).await;
        assert_eq!(stranger, unknown);
    }
    assert_eq!(opened, 1);
}
