//! Starting, using and ending sessions over the API.

use serde_json::{Value, json};
use sexton::entry::EntryKind;
use sexton::session::{ActivityKind, Status};
use sexton::store::Touch;
use sexton::time::{HOUR, MINUTE};

use crate::api::{Ask, Host};
use crate::support::fake_runner::{Answering, Raw, Verb, When};
use crate::support::world::silent;

#[tokio::test]
async fn a_session_is_opened_once_and_then_found() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let wish = json!({"repo": "/src/app", "engine": "fake"});

    let first = host.post("/v1/sessions", wish.clone()).await.ok();
    let second = host.post("/v1/sessions", wish).await.ok();

    assert_eq!((&first["opened"], &second["opened"]), (&json!(true), &json!(false)));
    assert_eq!(first["session"]["id"], second["session"]["id"]);
    assert_eq!(first["session"]["status"], "active");
    assert_eq!(first["session"]["owner_id"], "me");
    assert_eq!(first["session"]["runner_id"], "mac-mini", "the only one enrolled");
    assert_eq!(runner.calls_of(Verb::Start).len(), 1);
    let found = host.get(&format!("/v1/sessions/{}", first["session"]["id"].as_str().unwrap())).await.ok();
    assert_eq!(found["started_at"], host.world.now().to_string(), "RFC 3339 with milliseconds");
    assert_eq!(host.get("/v1/sessions").await.ok()["items"], json!([found]));
}

#[tokio::test]
async fn a_session_whose_engine_has_ended_is_opened_anew() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let wish = json!({"repo": "/src/app", "engine": "fake"});
    let first = host.post("/v1/sessions", wish.clone()).await.ok();
    let id = first["session"]["id"].as_str().unwrap().parse().unwrap();
    runner.script().end_by_itself(&id, "exited", &host.world.clock);
    host.world.clock.advance(HOUR);

    let second = host.post("/v1/sessions", wish).await.ok();

    assert_eq!(second["opened"], true);
    assert_ne!(first["session"]["id"], second["session"]["id"]);
    let old = host.world.store().find_session(&id).await.unwrap().unwrap();
    assert_eq!((old.status, old.end_reason.as_deref()), (Status::Ended, Some("exited")));
}

#[tokio::test]
async fn a_reuse_that_the_runner_did_not_hear_of_is_told_with_the_next_use() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let wish = json!({"repo": "/src/app", "engine": "fake"});
    let first = host.post("/v1/sessions", wish.clone()).await.ok();
    host.world.clock.advance(HOUR);
    runner.answer_once(Verb::Touch, None, Answering::Reset);
    assert_eq!(host.post("/v1/sessions", wish).await.ok()["opened"], false);
    let before = runner.calls_of(Verb::Touch).len();

    let path = format!("/v1/sessions/{}/activity", first["session"]["id"].as_str().unwrap());
    host.post(&path, json!({"kind": "capture"})).await.ok();

    assert_eq!(runner.calls_of(Verb::Touch).len(), before + 1);
}

#[tokio::test]
async fn a_session_that_its_runner_does_not_hold_is_attached_again() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let row = host.world.session("lost", HOUR, |row| row.owner_id = Some("me".to_owned())).await;

    let again = host.post("/v1/sessions", json!({"repo": row.repo, "engine": row.engine})).await.ok();

    assert_eq!((&again["opened"], &again["session"]["generation"]), (&json!(false), &json!(2)));
    assert_eq!(runner.script().engines[&row.id].generation, 2, "what is said to be open can be used");
}

#[tokio::test]
async fn a_wish_that_makes_no_sense_is_refused_and_starts_nothing() {
    let host = Host::new().await;
    assert_eq!(host.post("/v1/sessions", json!({"repo": "/r", "engine": "fake"})).await.code(), "invalid");
    let runner = host.world.runner().await;
    for repo in ["", "relative", "/a\nb", &format!("/{}", "x".repeat(5_000))] {
        let answer = host.post("/v1/sessions", json!({"repo": repo, "engine": "fake"})).await;
        assert_eq!(answer.error(), (400, "invalid".to_owned()), "{repo}");
    }
    let unknown = host.post("/v1/sessions", json!({"repo": "/r", "engine": "fake", "runner": "other"})).await;
    assert_eq!(unknown.error(), (502, "runner".to_owned()));
    host.world.enrol_url("second", "http://127.0.0.1:9").await;
    let which = host.post("/v1/sessions", json!({"repo": "/r", "engine": "fake"})).await;
    assert_eq!(which.code(), "invalid");
    assert!(which.json()["error"]["message"].as_str().unwrap().contains("mac-mini, second"));
    assert_eq!(runner.calls_of(Verb::Start).len(), 0);
}

#[tokio::test]
async fn a_message_is_answered_once_the_runner_took_it() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(HOUR));

    let sent = host.post("/v1/sessions/s/messages", json!({"text": "go on"})).await.ok();

    assert_eq!(sent["last_activity_kind"], "message");
    assert_eq!(sent["last_activity_at"], host.world.now().to_string());
    assert_eq!(runner.script().engines[&session.id].messages, ["go on"]);
    assert_eq!(host.post("/v1/sessions/s/messages", json!({"text": ""})).await.code(), "invalid");
    runner.answer(Verb::Messages, None, Answering::Raw(Raw::bare(500)));
    assert_eq!(host.post("/v1/sessions/s/messages", json!({"text": "x"})).await.error().0, 502);
}

#[tokio::test]
async fn reading_the_timeline_is_a_use_and_explaining_is_not() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(HOUR));

    let explained = host.get("/v1/sessions/s/explain").await.ok();
    assert_eq!(explained["verdict"], "recently_active");
    assert_eq!(explained["due_at"], host.world.now().plus(5 * HOUR).to_string());
    for path in ["/v1/sessions", "/v1/sessions/s", "/v1/runners", "/v1/sweeps", "/metrics"] {
        assert_eq!(host.get(path).await.status, 200, "{path}");
    }
    assert_eq!(host.world.read(&session).await.last_activity_at, session.last_activity_at);
    assert_eq!(runner.calls_of(Verb::Touch).len(), 0);

    let read = host.get("/v1/sessions/s/timeline").await.ok();
    assert_eq!((read["items"][0]["kind"].as_str(), &read["next"]), (Some("started"), &Value::Null));
    host.worker.recorder.write_due().await;
    let row = host.world.read(&session).await;
    assert_eq!(row.last_activity_at, Some(host.world.now()));
    assert_eq!(row.last_activity_kind.unwrap().as_str(), "timeline");
    assert_eq!(runner.calls_of(Verb::Touch).len(), 1);
}

#[tokio::test]
async fn the_timeline_of_an_ended_session_can_be_read() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", 6 * HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(6 * HOUR));
    host.post("/v1/sweeps", json!({})).await.ok();

    let read = host.get("/v1/sessions/s/timeline?limit=1").await.ok();
    assert_eq!(read["items"][0]["kind"], "started");
    let next = read["next"].as_str().unwrap();
    let rest = host.get(&format!("/v1/sessions/s/timeline?after={next}")).await.ok();
    assert_eq!(rest["items"][0]["reason"], "idle");
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    assert_eq!(host.get("/v1/sessions/s/timeline?after=nowhere").await.code(), "bad_query");
    assert_eq!(runner.calls_of(Verb::Touch).len(), 0, "an ended session is not used");
    assert_eq!(host.get("/v1/sessions/s/explain").await.ok()["verdict"], "idle");
}

#[tokio::test]
async fn a_session_is_kept_for_a_time_and_a_reason() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(HOUR));

    let kept = host.post("/v1/sessions/s/keep", json!({"for": "12h", "because": "demo at nine"})).await.ok();

    assert_eq!(kept["keep_until"], host.world.now().plus(12 * HOUR).to_string());
    assert_eq!(kept["keep_reason"], "demo at nine");
    assert_eq!(host.world.entries(&session, EntryKind::Kept).await[0].actor, "me");
    for (time, why) in [("31d", "x"), ("0s", "x"), ("1h", " ")] {
        assert_eq!(host.post("/v1/sessions/s/keep", json!({"for": time, "because": why})).await.error().0, 400);
    }
    assert_eq!(host.post("/v1/sessions/s/keep", json!({"for": "soon", "because": "x"})).await.code(), "bad_body");
}

#[tokio::test]
async fn one_driver_drives_until_the_claim_lapses() {
    let host = Host::new().await;
    host.world.session("s", HOUR, |_| ()).await;
    let claim = async |name: &str| host.post("/v1/sessions/s/driver", json!({"driver": name})).await;
    assert_eq!(claim("ada").await.ok()["driver"], "ada");
    host.world.clock.advance(15 * MINUTE - 1);
    assert_eq!(claim("bob").await.error(), (409, "conflict".to_owned()));
    host.world.clock.advance(1);
    assert_eq!(claim("bob").await.ok()["driver"], "bob");
    let release = Ask::new("DELETE", "/v1/sessions/s/driver").token(&host.token).json(&json!({"driver": "bob"}));
    assert_eq!(host.ask(release).await.ok()["driver"], Value::Null);
    assert_eq!(claim(" ").await.code(), "invalid");
    let release = |path: &str| host.ask(Ask::new("DELETE", path).token(&host.token));
    claim("bob").await.ok();
    assert_eq!(release("/v1/sessions/s/driver").await.ok()["driver"], "bob", "it is not the token's owner who drives");
    assert_eq!(release("/v1/sessions/s/driver?driver=bob").await.ok()["driver"], Value::Null, "without a body");
    claim("me").await.ok();
    assert_eq!(release("/v1/sessions/s/driver").await.ok()["driver"], Value::Null, "the token's owner");
}

#[tokio::test]
async fn an_end_closes_the_row_once_the_engine_is_gone() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", 0, |_| ()).await;
    runner.hold_engine(&session.id, 1, silent(0));

    runner.answer_once(Verb::End, None, Answering::Raw(Raw::bare(500)));
    assert_eq!(host.post("/v1/sessions/s/end", json!({})).await.error(), (502, "runner".to_owned()));
    assert_eq!(host.world.read(&session).await.status, Status::Active, "no acknowledged stop, no closed row");

    let ended = host.ask(Ask::new("POST", "/v1/sessions/s/end").token(&host.token)).await.ok();
    assert_eq!((ended["status"].as_str(), ended["end_reason"].as_str()), (Some("ended"), Some("ended_by_person")));
    assert_eq!(host.post("/v1/sessions/s/end", json!({})).await.error(), (410, "ended".to_owned()));
    assert_eq!(host.get("/v1/sessions").await.ok()["items"], json!([]));
    assert_eq!(host.get("/v1/sessions?all=true").await.ok()["items"][0]["id"], "s");
}

#[tokio::test]
async fn an_end_that_lost_the_race_against_a_use_says_that_the_session_stays() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    let gate = runner.hold(Verb::End, When::Arrived);

    let (answer, ()) = tokio::join!(host.post("/v1/sessions/s/end", json!({})), async {
        gate.reached().await;
        let touch = Touch { id: session.id.clone(), at: host.world.now(), kind: ActivityKind::Capture };
        host.world.store().write_touches(&[touch]).await.unwrap();
        gate.open();
    });

    assert_eq!(answer.error(), (409, "conflict".to_owned()), "{answer:?}");
    assert!(host.world.read(&session).await.is_open());
    assert_eq!(host.world.entries(&session, EntryKind::Ended).await, []);
    let again = host.post("/v1/sessions/s/end", json!({})).await.ok();
    assert_eq!((again["status"].as_str(), again["end_reason"].as_str()), (Some("ended"), Some("orphaned")));
}

#[tokio::test]
async fn a_list_goes_on_where_its_page_ended() {
    let host = Host::new().await;
    for name in ["a", "b", "c"] {
        host.world.session(name, 0, |_| ()).await;
    }
    let first = host.get("/v1/sessions?limit=2").await.ok();
    assert_eq!((first["items"].as_array().unwrap().len(), first["next"].as_str()), (2, Some("b")));
    let last = host.get("/v1/sessions?limit=2&after=b").await.ok();
    assert_eq!((last["items"][0]["id"].as_str(), &last["next"]), (Some("c"), &Value::Null));
}
