//! The stream of events: nothing lost and nothing twice, whatever drops in between, and nobody else's.

use std::time::Duration;

use axum::Router;
use axum::body::BodyDataStream;
use futures_util::StreamExt;
use serde_json::Value;
use sexton::api;
use sexton::entry::{EntryKind, NewEntry};
use sexton::report::{PartName, Trigger};
use sexton::session::Session;
use sexton::store::{Keep, Protected, Store};
use sexton::sweep::Request;
use sexton::time::{HOUR, MINUTE, SECOND, UtcMs};
use sexton::token;
use sexton::tools::Tools;
use sexton::worker::Worker;
use sqlx::{Connection, SqliteConnection};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::api::{Ask, Host, ME, make_token, quiet};
use crate::support::sse::Parser;
use crate::support::world::{World, store_url};

/// One event as it came.
#[derive(Debug, Clone, PartialEq)]
struct Heard {
    kind: String,
    id: i64,
    data: Value,
}

/// Somebody who listens; dropping it hangs up.
struct Listener {
    body: BodyDataStream,
    parser: Parser,
}

impl Listener {
    async fn open(router: &Router, ask: Ask) -> Self {
        let response = router.clone().oneshot(ask.request()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body().into_data_stream(), parser: Parser::default() }
    }

    async fn at(host: &Host, query: &str) -> Self {
        Self::open(&host.router, ask(&host.token, query)).await
    }

    /// Returns the next event; none when the stream is over.
    async fn next(&mut self) -> Option<Heard> {
        let next = tokio::time::timeout(Duration::from_secs(10), self.read()).await;
        next.expect("something comes, or the stream is over")
    }

    async fn read(&mut self) -> Option<Heard> {
        loop {
            if let Some(got) = self.parser.take() {
                let id = got.id.unwrap().parse().unwrap();
                return Some(Heard { kind: got.name, id, data: got.data });
            }
            let chunk = self.body.next().await?.unwrap();
            self.parser.push(&chunk);
        }
    }
}

fn ask(token: &str, query: &str) -> Ask {
    Ask::new("GET", &format!("/v1/events{query}")).token(token)
}

async fn happen(store: &Store, session: &Session, at: UtcMs, message: &str) {
    let entry = NewEntry {
        session_id: session.id.clone(),
        generation: 1,
        at,
        kind: EntryKind::Warned,
        actor: "test".to_owned(),
        reason: None,
        message: message.to_owned(),
        evidence: serde_json::json!({}),
        once: None,
        engine_gone: false,
    };
    assert!(store.add_entry(&entry).await.unwrap());
}

#[tokio::test]
async fn a_reap_is_heard_within_a_second_and_with_its_reason() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.held(&runner, "s", 6 * HOUR).await;
    let mut listener = Listener::at(&host, "?kinds=ended,stopped").await;
    let ready = listener.next().await.unwrap();
    assert_eq!((ready.kind.as_str(), ready.id, &ready.data), ("ready", 1, &serde_json::json!({"seq": 1})));
    let pass = Request { only: vec![PartName::Idle], ..Request::all(Trigger::Manual) };
    host.worker.sweeps.run_now(pass).await.unwrap().unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(1), listener.next()).await.expect("within a second").unwrap();
    assert_eq!((ended.kind.as_str(), ended.id), ("ended", 2));
    assert_eq!(ended.data["seq"], 2);
    let told = &ended.data["session"];
    assert_eq!((&told["id"], &told["status"], &told["owner_id"]), (&"s".into(), &"ended".into(), &ME.into()));
    assert_eq!((&told["repo"], &told["runner_id"]), (&session.repo.as_str().into(), &"mac-mini".into()));
    assert_eq!((&ended.data["entry"]["reason"], &ended.data["entry"]["kind"]), (&"idle".into(), &"ended".into()));
    assert!(ended.data["entry"]["message"].as_str().unwrap().starts_with("Stopped after"));
}

#[tokio::test]
async fn a_listener_that_drops_again_and_again_and_outlives_the_worker_hears_everything_once() {
    let world = World::with(quiet).await;
    let (token, session) = (make_token(&world, ME, "read").await, world.session("s", 0, |_| ()).await);
    let router = |tools: &Tools| {
        let (worker, _work) = Worker::new(tools).unwrap();
        api::router(worker, ME.to_owned(), "127.0.0.1:7117".parse().unwrap()).unwrap()
    };
    let (mut api, mut cursor, mut heard) = (router(&world.tools), None, Vec::new());
    for round in 0..30 {
        let mut ask = ask(&token, if round % 2 == 0 { "" } else { "?cursor=0" });
        if let Some(cursor) = cursor {
            // The header is what a browser says by itself, and goes before the query.
            ask = ask.header("last-event-id", format!("{cursor}"));
        }
        let mut listener = Listener::open(&api, ask).await;
        if cursor.is_none() {
            cursor = Some(listener.next().await.unwrap().id);
        }
        for at in 0..round % 4 {
            happen(world.store(), &session, world.now(), &format!("{round}-{at}")).await;
        }
        for _ in 0..round % 3 {
            if heard.len() + 1 > (0..=round).map(|round| round % 4).sum::<usize>() {
                break;
            }
            let next = listener.next().await.unwrap();
            cursor = Some(next.id);
            heard.push(next.data["entry"]["message"].as_str().unwrap().to_owned());
        }
        if round == 15 {
            let second = world.second_process().await;
            api = router(&second);
        }
    }
    let mut listener = Listener::open(&api, ask(&token, &format!("?cursor={}", cursor.unwrap()))).await;
    let all: Vec<String> = (0..30).flat_map(|round| (0..round % 4).map(move |at| format!("{round}-{at}"))).collect();
    while heard.len() < all.len() {
        heard.push(listener.next().await.unwrap().data["entry"]["message"].as_str().unwrap().to_owned());
    }
    assert_eq!(heard, all);
}

#[tokio::test]
async fn another_owner_hears_nothing_and_who_sees_everything_hears_all() {
    let host = Host::new().await;
    let world = &host.world;
    let theirs = make_token(world, "ann", "read").await;
    let mine = make_token(world, ME, "read,use,reap").await;
    let mut admin = Listener::at(&host, "").await;
    let mut ann = Listener::open(&host.router, ask(&theirs, "")).await;
    let mut me = Listener::open(&host.router, ask(&mine, "")).await;
    for listener in [&mut admin, &mut ann, &mut me] {
        assert_eq!(listener.next().await.unwrap().kind, "ready");
    }
    let mut rows = Vec::new();
    for (name, owner) in [("mine", Some(ME)), ("anns", Some("ann")), ("legacy", None)] {
        rows.push(world.session(name, 0, |row| row.owner_id = owner.map(str::to_owned)).await);
    }
    let about = |heard: Heard| heard.data["session"]["id"].as_str().unwrap().to_owned();
    assert_eq!(about(ann.next().await.unwrap()), "anns");
    for name in ["mine", "legacy"] {
        assert_eq!(about(me.next().await.unwrap()), name);
    }
    for name in ["mine", "anns", "legacy"] {
        assert_eq!(about(admin.next().await.unwrap()), name);
    }
    // What comes next is the next of their own: nothing of somebody else's came in between.
    for (name, owner) in [("anns-next", "ann"), ("my-next", ME)] {
        world.session(name, 0, |row| row.owner_id = Some(owner.to_owned())).await;
    }
    assert_eq!(
        (about(ann.next().await.unwrap()), about(me.next().await.unwrap())),
        ("anns-next".to_owned(), "my-next".to_owned())
    );

    // A session of hers is to others as if it were none.
    let foreign = host.ask(ask(&mine, "?session_id=anns")).await;
    assert_eq!(foreign, host.ask(ask(&mine, "?session_id=nobody")).await);
    assert_eq!(foreign.error(), (404, "not_found".to_owned()));
    let mut one = Listener::open(&host.router, ask(&host.token, "?session_id=anns&cursor=0")).await;
    assert_eq!(about(one.next().await.unwrap()), "anns");
    happen(world.store(), &rows[0], world.now(), "of another").await;
    happen(world.store(), &rows[1], world.now(), "of this one").await;
    assert_eq!(one.next().await.unwrap().data["entry"]["message"], "of this one");
}

#[tokio::test]
async fn a_revoked_token_hears_nothing_more_once_it_is_looked_up_again() {
    let host = Host::new().await;
    let (world, store) = (&host.world, host.world.store());
    let session = world.session("s", 0, |_| ()).await;
    let (row, secret) = token::create(ME, &"read".parse().unwrap(), world.now()).unwrap();
    store.insert_token(&row).await.unwrap();
    let mut listener = Listener::open(&host.router, ask(secret.expose(), "")).await;
    assert_eq!(listener.next().await.unwrap().kind, "ready");
    assert!(store.revoke_token(&row.id, world.now()).await.unwrap());
    world.clock.advance(20 * SECOND - 1);
    happen(store, &session, world.now(), "one").await;
    assert_eq!(listener.next().await.unwrap().data["entry"]["message"], "one");
    world.clock.advance(1);
    happen(store, &session, world.now(), "two").await;
    assert_eq!(listener.next().await, None);
}

#[tokio::test]
async fn what_is_forgotten_is_a_gap_and_no_place_is_used_twice() {
    let host = Host::new().await;
    let (world, store) = (&host.world, host.world.store());
    let session = world.session("s", 0, |_| ()).await;
    for at in 0..4 {
        happen(store, &session, world.now().plus(at), &format!("{at}")).await;
    }
    world.clock.advance(48 * HOUR);
    let keep = Keep { ended_ms: HOUR, timeline_ms: HOUR, sweeps: 1_000 };
    store.prune(world.now(), &keep, &Protected::default()).await.unwrap();
    assert_eq!(store.event_head().await.unwrap(), 5, "nothing is left, and no place is given again");
    happen(store, &session, world.now(), "new").await;

    let mut listener = Listener::at(&host, "?cursor=2").await;
    let gap = listener.next().await.unwrap();
    assert_eq!((gap.kind.as_str(), gap.id, &gap.data), ("gap", 5, &serde_json::json!({"from": 3, "to": 5})));
    assert_eq!(listener.next().await.unwrap().id, 6);
    let mut listener = Listener::at(&host, "?cursor=5").await;
    assert_eq!(listener.next().await.unwrap().id, 6);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let host = Host::new().await;
    host.world.session("s", 0, |_| ()).await;
    for query in ["?cursor=2", "?cursor=-1", "?cursor=x", "?kinds=ended,finished", "?session_id=a%20b", "?since=1"] {
        assert_eq!(host.get(&format!("/v1/events{query}")).await.error(), (400, "bad_query".to_owned()), "{query}");
    }
    let header = ask(&host.token, "?cursor=0").header("last-event-id", "7");
    assert_eq!(host.ask(header).await.error(), (400, "bad_query".to_owned()));
}

#[tokio::test]
async fn a_long_past_is_read_in_order_and_a_filter_passes_over_it() {
    let host = Host::new().await;
    let (store, now) = (host.world.store(), host.world.now());
    let (one, other) = (host.world.session("one", 0, |_| ()).await, host.world.session("other", 0, |_| ()).await);
    for at in 0..1_300 {
        happen(store, if at % 650 == 7 { &one } else { &other }, now, &format!("{at}")).await;
    }
    let mut listener = Listener::at(&host, "?cursor=2").await;
    for at in 0..1_300 {
        assert_eq!(listener.next().await.unwrap().data["entry"]["message"], format!("{at}"));
    }
    let mut filtered = Listener::at(&host, "?cursor=0&session_id=one&kinds=warned").await;
    for at in ["7", "657"] {
        assert_eq!(filtered.next().await.unwrap().data["entry"]["message"], at);
    }
}

#[tokio::test]
async fn a_worker_that_stops_ends_its_streams_at_once() {
    let world = World::with(quiet).await;
    let token = make_token(&world, ME, "read").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let task = tokio::spawn(api::serve(world.tools.clone(), ME.to_owned(), listener, stop.clone()));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut stream = client.get(format!("http://{address}/v1/events")).bearer_auth(token).send().await.unwrap();
    let first = stream.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"event: ready\nid: 0\n"), "{first:?}");
    stop.cancel();
    let ended = async { while stream.chunk().await.unwrap().is_some() {} };
    tokio::time::timeout(Duration::from_secs(2), ended).await.expect("the stream ends");
    tokio::time::timeout(Duration::from_secs(5), task).await.expect("so does the worker").unwrap().unwrap();
}

#[tokio::test]
async fn entries_from_before_get_their_places_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let url = store_url(&folder);
    drop(Store::open(&url).await.unwrap());
    let world = World::on(&url).await;
    let session = world.session("s", 0, |_| ()).await;
    happen(world.store(), &session, world.now().plus(MINUTE), "later").await;
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    // As a store was before there were places.
    for sql in [
        "DROP INDEX timeline_by_seq",
        "ALTER TABLE timeline DROP COLUMN seq",
        "DROP TABLE webhooks",
        "DROP TABLE deliveries",
        "DELETE FROM _sqlx_migrations WHERE version = 4",
    ] {
        sqlx::query(sql).execute(&mut connection).await.unwrap();
    }
    let store = Store::open(&url).await.unwrap();
    let events = store.list_events((0, 10), &sexton::store::EventFilter::default(), 10).await.unwrap();
    let places: Vec<(i64, &str)> = events.iter().map(|event| (event.seq, event.entry.message.as_str())).collect();
    assert_eq!(places, [(1, "Opened."), (2, "later")]);
    happen(&store, &session, world.now(), "newest").await;
    assert_eq!(store.event_head().await.unwrap(), 3);
}
