//! The whole worker on a real port: start, readiness, schedule, clean stop.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use sexton::api;
use sexton::session::Status;
use sexton::store::Store;
use sexton::sweep::SILENT;
use sexton::time::{HOUR, MINUTE, SECOND, Span};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api::{ME, make_token, quiet};
use crate::support::fake_runner::{Answering, Verb};
use crate::support::world::{World, silent};

/// A worker that listens.
struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
    client: reqwest::Client,
}

impl Served {
    async fn start(world: &World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(api::serve(world.tools.clone(), ME.to_owned(), listener, stop.clone()));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { address, stop, task, client }
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let response = self.client.get(format!("http://{}{path}", self.address)).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn post(&self, path: &str, token: &str, body: Value) -> (u16, Value) {
        let request = self.client.post(format!("http://{}{path}", self.address)).bearer_auth(token);
        let response = request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap())
    }

    /// Stops it, which must not take long.
    async fn stop(self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(20), self.task).await;
        ended.expect("the stop takes too long").unwrap().unwrap();
    }
}

async fn reopened(world: &World) -> Store {
    Store::open(&format!("sqlite://{}/sexton.db", world.folder.path().display())).await.unwrap()
}

#[tokio::test]
async fn a_fresh_worker_says_what_to_do_and_waits() {
    let world = World::with(quiet).await;
    let served = Served::start(&world).await;
    assert_eq!(served.get("/healthz").await, (200, json!({"status": "ok"})));
    let (status, body) = served.get("/readyz").await;
    assert_eq!((status, body["error"]["code"].as_str()), (503, Some("no_token")));
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("sexton tokens create --owner NAME --scope read,use"), "{message}");

    make_token(&world, ME, "read").await;
    assert_eq!(served.get("/readyz").await.0, 200, "without a restart");
    served.stop().await;
}

#[tokio::test]
async fn it_refuses_a_bad_schedule() {
    let world = World::with(|config| config.schedule.sweep = "0 0 30 2 *".to_owned()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = api::serve(world.tools.clone(), ME.to_owned(), listener, CancellationToken::new()).await.unwrap_err();
    assert!(format!("{refused:#}").contains("never fires"), "{refused:#}");
}

#[tokio::test]
async fn activity_of_the_last_second_survives_a_clean_stop() {
    let world = World::with(quiet).await;
    let runner = world.runner().await;
    let session = world.session("s", HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(HOUR));
    let token = make_token(&world, ME, "use").await;
    let served = Served::start(&world).await;
    for _ in 0..3 {
        world.clock.advance(SECOND);
        assert_eq!(served.post("/v1/sessions/s/activity", &token, json!({"kind": "capture"})).await.0, 200);
    }
    served.stop().await;

    let store = reopened(&world).await;
    let row = store.find_session(&session.id).await.unwrap().unwrap();
    assert_eq!(row.last_activity_at, Some(world.now()), "the last poll, which the throttle held back");
    let moved = store.forgive_crashes(world.now().plus(HOUR), SILENT, MINUTE).await.unwrap();
    assert_eq!(moved, 0, "it has signed off, so there is nothing to make up for");
}

#[tokio::test]
async fn a_worker_that_is_killed_has_left_its_sign_of_life() {
    let world = World::with(quiet).await;
    world.session("s", 10 * SECOND, |_| ()).await;
    let served = Served::start(&world).await;
    served.get("/healthz").await;
    let store = reopened(&world).await;
    let later = world.now().plus(HOUR);
    let noticed = async { while store.forgive_crashes(later, SILENT, MINUTE).await.unwrap() == 0 {} };
    tokio::time::timeout(Duration::from_secs(10), noticed).await.expect("no sign of life");
    served.task.abort();
}

#[tokio::test]
async fn a_process_that_died_is_made_up_for_at_the_next_start() {
    let world = World::with(quiet).await;
    let session = world.session("s", 10 * SECOND, |_| ()).await;
    world.store().beat(&"died".parse().unwrap(), world.now()).await.unwrap();
    world.clock.advance(5 * MINUTE);
    let served = Served::start(&world).await;
    served.get("/healthz").await;
    served.stop().await;
    let row = reopened(&world).await.find_session(&session.id).await.unwrap().unwrap();
    assert_eq!(row.last_activity_at, session.last_activity_at.map(|at| at.plus(MINUTE)));
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_runner_that_hangs() {
    let world = World::with(|config| {
        quiet(config);
        config.schedule.shutdown_limit = Span(300);
    })
    .await;
    let runner = world.runner().await;
    let session = world.session("s", 6 * HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(6 * HOUR));
    runner.answer(Verb::End, None, Answering::Hang);
    let token = make_token(&world, ME, "reap").await;
    let served = Served::start(&world).await;
    let (client, address) = (served.client.clone(), served.address);
    let sweeping =
        tokio::spawn(async move { client.post(format!("http://{address}/v1/sweeps")).bearer_auth(token).send().await });
    runner.wait_for(Verb::End, 1).await;

    served.stop().await;

    drop(sweeping.await);
    let row = reopened(&world).await.find_session(&session.id).await.unwrap().unwrap();
    assert_eq!(row.status, Status::Active, "no acknowledged stop, no closed row");
}

#[tokio::test]
async fn its_schedule_sweeps() {
    let world = World::with(|config| config.schedule.sweep = "* * * * * *".to_owned()).await;
    let runner = world.runner().await;
    let session = world.session("s", 6 * HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(6 * HOUR));
    let served = Served::start(&world).await;
    runner.wait_for(Verb::Forget, 1).await;
    served.stop().await;
    let store = reopened(&world).await;
    let row = store.find_session(&session.id).await.unwrap().unwrap();
    assert_eq!(row.end_reason.as_deref(), Some("idle"));
    let triggers: Vec<String> = store.list_sweeps(100).await.unwrap().into_iter().map(|sweep| sweep.trigger).collect();
    assert!(triggers.iter().all(|trigger| trigger == "schedule"), "{triggers:?}");
}
