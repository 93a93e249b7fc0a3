//! What only looks costs little among ten thousand sessions, and touches nothing. The bounds are generous, since tests run
//! unoptimised beside each other; `cargo bench --bench overview` has the figures.

use std::sync::Arc;
use std::time::Duration;

use sexton::session::Session;
use sexton::store::Imported;
use sexton::time::MINUTE;

use crate::api::{Host, ME};
use crate::support::fake_runner::FakeRunner;
use crate::support::world::{id, silent};

const SESSIONS: usize = 10_000;
const RUNNERS: usize = 10;

/// What a look may take here, unoptimised and beside other tests; in a release build it is tens of milliseconds.
const MOST: Duration = Duration::from_secs(2);

async fn fill(host: &Host) -> Vec<FakeRunner> {
    let world = &host.world;
    let mut runners = Vec::new();
    for at in 0..RUNNERS {
        let runner = FakeRunner::with_clock(Arc::new(world.clock.clone())).await;
        let name = format!("runner-{at}");
        runner.script().runner_id = id(&name);
        world.enrol(&runner, &name).await;
        runners.push(runner);
    }
    let row = |at: usize| Session {
        runner_id: id(&format!("runner-{}", at % RUNNERS)),
        ..world.row(&format!("s{at:05}"), MINUTE)
    };
    let rows: Vec<Session> = (0..SESSIONS).map(row).collect();
    for (at, row) in rows.iter().enumerate() {
        runners[at % RUNNERS].hold_engine(&row.id, 1, silent(MINUTE));
    }
    assert_eq!(world.store().import_sessions(&rows, ME, |_| None).await.unwrap(), Imported::Done);
    runners
}

#[tokio::test]
async fn looking_at_ten_thousand_sessions_costs_little_and_touches_nothing() {
    let host = Host::new().await;
    let _runners = fill(&host).await;
    // What a probe remembers of a runner is written by the first one.
    host.get("/v1/runners/connectivity").await.ok();
    let before = host.world.dump().await;
    for path in [
        "/v1/sessions/s00007/explain",
        "/v1/sessions/s00007",
        "/v1/sessions?limit=1000",
        "/v1/runners",
        "/v1/runners/connectivity",
        "/v1/runners/runner-7/connectivity",
    ] {
        let answer = tokio::time::timeout(MOST, host.get(path)).await;
        answer.unwrap_or_else(|_| panic!("{path} takes longer than {MOST:?}")).ok();
    }
    let overview = host.get("/v1/runners/connectivity").await.ok();
    let told = overview["items"].as_array().unwrap().iter().map(|item| item["sessions"].as_array().unwrap().len());
    assert_eq!(told.sum::<usize>(), SESSIONS);
    assert!(host.world.dump().await == before, "a look has written something");
}
