//! What looking costs among many open sessions: `explain`, lists, and the connectivity of all runners.
//!
//! `cargo bench --bench overview` prints the median and the worst of twenty requests each, from the request to the whole
//! answer, without the network between caller and worker; `SEXTON_BENCH_SESSIONS` changes the size.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for one person at a time")]

mod farm;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use sexton::api;
use sexton::token;
use sexton::worker::Worker;
use tower::ServiceExt;

use crate::farm::Farm;

/// How often each is asked.
const ROUNDS: usize = 20;

/// The routes, and whether what runners answered before may be told again.
const LOOKS: [(&str, bool); 6] = [
    ("/v1/sessions/s0000007/explain", false),
    ("/v1/sessions?limit=200", false),
    ("/v1/sessions?limit=1000", false),
    ("/v1/runners/runner-7/connectivity", true),
    ("/v1/runners/connectivity", true),
    ("/v1/runners/connectivity", false),
];

fn main() {
    farm::run(10_000, measure);
}

async fn measure(farm: Farm) {
    let tools = &farm.tools;
    let (worker, _work) = Worker::new(tools).unwrap();
    let router = api::router(worker, "me".to_owned(), "127.0.0.1:7117".parse().unwrap()).unwrap();
    let (row, secret) = token::create("me", &"admin".parse().unwrap(), tools.clock.now()).unwrap();
    tools.store.insert_token(&row).await.unwrap();
    println!("{} open sessions on ten runners, {ROUNDS} requests each", farm.sessions);
    for (path, kept) in LOOKS {
        let mut config = sexton::config::Config::clone(&tools.config());
        config.limits.connectivity_cache.0 = if kept { 60_000 } else { 0 };
        tools.settings.replace(config);
        let mut took = Vec::new();
        let mut bytes = 0;
        for _ in 0..=ROUNDS {
            let request = Request::get(path)
                .header("host", "127.0.0.1:7117")
                .header("authorization", format!("Bearer {}", secret.expose()));
            let began = sexton::clock::timer();
            let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
            bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap().len();
            took.push(began.elapsed());
        }
        // The first one opens connections and fills caches.
        let rest = &mut took[1..];
        rest.sort_unstable();
        let said = if kept { ", told again" } else { "" };
        println!(
            "{path}{said}: {:.1?} in the median, {:.1?} at the most, {bytes} bytes",
            rest[ROUNDS / 2],
            rest[ROUNDS - 1]
        );
    }
}
