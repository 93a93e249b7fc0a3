//! Somebody comes back between the decision and the stop: the touch goes to the runner first, and the reap does not
//! overtake it.

use serde_json::json;
use sexton::entry::EntryKind;
use sexton::session::Status;
use sexton::time::HOUR;

use crate::api::{Answer, Host};
use crate::support::fake_runner::{FakeRunner, Verb, When};
use crate::support::world::silent;

const WINDOW: i64 = 6 * HOUR;

/// The ways of coming back.
const WAYS: [&str; 3] = ["capture", "message", "timeline"];

async fn come_back(host: &Host, way: &str) -> Answer {
    match way {
        "message" => host.post("/v1/sessions/s/messages", json!({"text": "wait"})).await,
        "timeline" => host.get("/v1/sessions/s/timeline").await,
        kind => host.post("/v1/sessions/s/activity", json!({"kind": kind})).await,
    }
}

async fn idle_session() -> (Host, FakeRunner, sexton::session::Session) {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", WINDOW, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(WINDOW));
    (host, runner, session)
}

#[tokio::test]
async fn who_comes_back_before_the_runner_decides_keeps_the_session() {
    for way in WAYS {
        let (host, runner, session) = idle_session().await;
        let gate = runner.hold(Verb::End, When::Arrived);

        let (report, ()) = tokio::join!(host.post("/v1/sweeps", json!({})), async {
            gate.reached().await;
            come_back(&host, way).await.ok();
            gate.open();
        });

        let report = report.ok();
        assert_eq!((&report["idle"]["reaped"], &report["idle"]["kept"]["refused"]), (&json!(0), &json!(1)), "{way}");
        assert_eq!(runner.script().stops, [], "{way}");
        host.worker.recorder.write_due().await;
        let row = host.world.read(&session).await;
        assert_eq!((row.status, row.last_activity_at), (Status::Active, Some(host.world.now())), "{way}");
        assert_eq!(host.world.entries(&session, EntryKind::Refused).await.len(), 1, "{way}");
    }
}

#[tokio::test]
async fn who_comes_back_after_the_stop_is_told_that_it_has_ended_and_why() {
    for way in WAYS {
        let (host, runner, session) = idle_session().await;
        let gate = runner.hold(Verb::End, When::Decided);

        let (report, answer) = tokio::join!(host.post("/v1/sweeps", json!({})), async {
            gate.reached().await;
            let answer = come_back(&host, way).await;
            gate.open();
            answer
        });

        if way == "timeline" {
            let items = answer.ok()["items"].as_array().unwrap().clone();
            assert_eq!(items.last().unwrap()["reason"], "idle", "what closed the row is read");
        } else {
            assert_eq!(answer.error(), (410, "ended".to_owned()), "{way}");
            assert!(answer.json()["error"]["message"].as_str().unwrap().contains("idle"), "{answer:?}");
        }
        let kept = &report.ok()["idle"];
        assert_eq!(
            (&kept["examined"], &kept["kept"]["lost_race"]),
            (&json!(1), &json!(1)),
            "the touch closed it first"
        );
        assert_eq!(host.world.read(&session).await.end_reason.as_deref(), Some("idle"));
        assert_eq!(host.world.entries(&session, EntryKind::Ended).await.len(), 1, "one entry, {way}");
    }
}
