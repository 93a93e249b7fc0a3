//! Passes over the API, and what is told of them and of the runners.

use serde_json::{Value, json};
use sexton::session::Status;
use sexton::time::{HOUR, MINUTE};

use crate::api::{Ask, Host};
use crate::support::world::silent;

#[tokio::test]
async fn a_pass_is_made_on_request_and_a_dry_run_writes_nothing() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", 6 * HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(6 * HOUR));

    let told = host.post("/v1/sweeps", json!({"dry_run": true})).await.ok();
    assert_eq!((&told["idle"]["reaped"], &told["dry_run"]), (&json!(1), &json!(true)));
    assert_eq!(host.world.read(&session).await.status, Status::Active);
    assert_eq!(host.get("/v1/sweeps").await.ok()["items"], json!([]));

    let other = host.post("/v1/sweeps", json!({"only": ["runs", "orphans"]})).await.ok();
    assert_eq!(other["idle"]["examined"], 0, "it stands there with zeros");
    assert_eq!(host.world.read(&session).await.status, Status::Active);

    let done = host.ask(Ask::new("POST", "/v1/sweeps").token(&host.token)).await.ok();
    assert_eq!((&done["idle"]["reaped"], done["trigger"].as_str()), (&json!(1), Some("api")));
    assert_eq!(host.world.read(&session).await.end_reason.as_deref(), Some("idle"));
    let past = host.get("/v1/sweeps?limit=1").await.ok();
    assert_eq!(past["items"][0]["id"], done["sweep_id"]);
    let older = host.get(&format!("/v1/sweeps?after={}", past["next"].as_str().unwrap())).await.ok();
    assert_eq!((older["items"][0]["id"].as_str(), &older["next"]), (other["sweep_id"].as_str(), &Value::Null));
}

#[tokio::test]
async fn a_part_that_is_none_is_refused() {
    let host = Host::new().await;
    assert_eq!(host.post("/v1/sweeps", json!({"only": ["idles"]})).await.code(), "bad_body");
    assert_eq!(host.post("/v1/sweeps", json!({"only": ["observe"]})).await.code(), "invalid");
    assert_eq!(host.post("/v1/sweeps", json!({"dryrun": true})).await.code(), "bad_body");
    assert_eq!(host.get("/v1/sweeps").await.ok()["items"], json!([]));
}

#[tokio::test]
async fn passes_on_request_come_one_after_the_other() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", 6 * HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(6 * HOUR));
    let reports = futures_util::future::join_all((0..4).map(|_| host.post("/v1/sweeps", json!({})))).await;
    let reaped: Vec<u64> = reports.iter().map(|answer| answer.ok()["idle"]["reaped"].as_u64().unwrap()).collect();
    assert_eq!(reaped.iter().sum::<u64>(), 1, "{reaped:?}");
    assert_eq!(runner.script().stops.len(), 1);
}

#[tokio::test]
async fn metrics_count_what_passes_came_to() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", 6 * HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(6 * HOUR));
    host.post("/v1/sweeps", json!({})).await.ok();
    host.world.clock.advance(MINUTE);

    let answer = host.get("/metrics").await;

    assert_eq!(answer.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    for line in [
        "sexton_verdicts_total{part=\"idle\",verdict=\"idle\"} 1",
        "sexton_sweeps_total 1",
        "sexton_sweep_age_seconds 60.0",
        "sexton_sweep_duration_seconds_count 1",
    ] {
        assert!(text.lines().any(|known| known == line), "no {line:?} in\n{text}");
    }
    assert!(text.contains("\nsexton_stop_latency_seconds_count ") && text.ends_with("# EOF\n"), "{text}");
}

#[tokio::test]
async fn runners_are_listed_without_where_their_secrets_lie() {
    let host = Host::new().await;
    let _runner = host.world.runner().await;
    host.post("/v1/sweeps", json!({})).await.ok();
    let listed = host.get("/v1/runners").await.ok();
    let row = &listed["items"][0];
    assert_eq!((row["id"].as_str(), row["protocol"].as_i64()), (Some("mac-mini"), Some(1)));
    assert_eq!(row["last_seen_at"], host.world.now().to_string());
    assert!(row.get("token_file").is_none(), "{row}");
}

#[tokio::test]
async fn it_is_ready_while_passes_come_and_somebody_can_use_it() {
    let host = Host::new().await;
    assert_eq!(host.get("/readyz").await.ok(), json!({"status": "ok"}));
    let every_minute = Host::with(|config| config.schedule.sweep = "0 * * * * *".to_owned()).await;
    every_minute.world.clock.advance(3 * MINUTE);
    assert_eq!(every_minute.get("/readyz").await.status, 200, "a few ticks may be late");
    every_minute.world.clock.advance(2 * MINUTE);
    assert_eq!(every_minute.get("/readyz").await.error(), (503, "sweeps".to_owned()));
    every_minute.post("/v1/sweeps", json!({"dry_run": true})).await.ok();
    assert_eq!(every_minute.get("/readyz").await.status, 200);
}
