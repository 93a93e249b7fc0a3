//! Ensuring and resuming over the API: what its callers see.

use serde_json::json;
use sexton::time::{HOUR, MINUTE};

use crate::api::Host;
use crate::support::fake_runner::{Answering, FakeRunner, Raw, Verb};

const CONVERSATION: &str = "c0ffee";

/// Opens a session that has a conversation, and has a pass reap it. Returns its id.
async fn reaped(host: &Host, runner: &FakeRunner) -> String {
    let opened = host.post("/v1/sessions", json!({"repo": "/src/app", "engine": "fake"})).await.ok();
    let id = opened["session"]["id"].as_str().unwrap().to_owned();
    let engine = id.parse().unwrap();
    runner.script().engines.get_mut(&engine).unwrap().conversation = Some(CONVERSATION.to_owned());
    host.world.clock.advance(6 * HOUR + 5 * MINUTE);
    host.post("/v1/sweeps", json!({})).await.ok();
    assert_eq!(host.get(&format!("/v1/sessions/{id}")).await.ok()["end_reason"], "idle");
    id
}

#[tokio::test]
async fn an_engine_that_does_not_start_is_told_with_its_reason() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let body = json!({"protocol": 1, "runner_id": "mac-mini", "epoch": 1, "ready": true, "outcome": "start_failed",
        "message": "the engine did not start: the engine left with exit code 127; fake: command not found"});
    runner.answer(Verb::Start, None, Answering::Raw(Raw::json(422, body.to_string())));
    let answer = host.post("/v1/sessions", json!({"repo": "/src/app", "engine": "fake"})).await;
    assert_eq!(answer.error(), (502, "runner".to_owned()));
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("exit code 127; fake: command not found"));
}

#[tokio::test]
async fn a_session_may_have_a_window_of_its_own() {
    let host = Host::new().await;
    let _runner = host.world.runner().await;
    let wish = |window: &str| json!({"repo": "/src/app", "engine": "fake", "idle_after": window});
    assert_eq!(host.post("/v1/sessions", wish("1s")).await.code(), "invalid");
    assert_eq!(host.post("/v1/sessions", wish("soon")).await.code(), "bad_body");
    let opened = host.post("/v1/sessions", wish("2h")).await.ok();
    assert_eq!(opened["session"]["idle_after_ms"], json!(2 * HOUR));
}

#[tokio::test]
async fn an_open_session_is_found_where_it_is_without_naming_its_runner() {
    let host = Host::new().await;
    let _runner = host.world.runner().await;
    let wish = json!({"repo": "/src/app", "engine": "fake"});
    let first = host.post("/v1/sessions", wish.clone()).await.ok();
    host.world.enrol_url("second", "http://127.0.0.1:9").await;
    for path in ["/v1/sessions", "/v1/runs"] {
        let again = host.post(path, wish.clone()).await.ok();
        assert_eq!((&again["opened"], &again["session"]["id"]), (&json!(false), &first["session"]["id"]), "{path}");
    }
}

#[tokio::test]
async fn several_runners_of_which_none_is_here_are_listed_and_nothing_is_written() {
    let host = Host::new().await;
    let _runner = host.world.runner().await;
    host.world.enrol_url("second", "http://127.0.0.1:9").await;
    for path in ["/v1/sessions", "/v1/runs"] {
        let answer = host.post(path, json!({"repo": "/src/app", "engine": "fake"})).await;
        assert_eq!(answer.error(), (400, "invalid".to_owned()), "{path}");
        assert_eq!(answer.json()["error"]["message"], "name the runner, one of mac-mini, second", "{path}");
    }
    assert_eq!(host.get("/v1/sessions?all=true").await.ok()["items"], json!([]));
    for path in ["/v1/sessions", "/v1/runs"] {
        let named = json!({"repo": format!("/src{path}"), "engine": "fake", "runner": "mac-mini"});
        assert_eq!(host.post(path, named).await.ok()["session"]["runner_id"], "mac-mini", "{path}");
    }
}

#[tokio::test]
async fn the_runner_of_this_machine_is_meant_where_none_is_named() {
    let host = Host::with(|config| config.runner.id = "mac-mini".parse().unwrap()).await;
    let _runner = host.world.runner().await;
    host.world.enrol_url("a-second", "http://127.0.0.1:9").await;
    for path in ["/v1/sessions", "/v1/runs"] {
        let opened = host.post(path, json!({"repo": format!("/src{path}"), "engine": "fake"})).await.ok();
        assert_eq!((&opened["opened"], opened["session"]["runner_id"].as_str()), (&json!(true), Some("mac-mini")));
    }
}

#[tokio::test]
async fn force_without_a_runner_is_refused() {
    let host = Host::new().await;
    let _runner = host.world.runner().await;
    let answer = host.post("/v1/sessions", json!({"repo": "/src/app", "engine": "fake", "force": true})).await;
    assert_eq!(answer.code(), "invalid");
}

#[tokio::test]
async fn a_message_to_a_reaped_session_says_why_and_when_and_offers_to_resume() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let id = reaped(&host, &runner).await;
    let path = format!("/v1/sessions/{id}/messages");

    let answer = host.post(&path, json!({"text": "go on"})).await;

    assert_eq!(answer.error(), (410, "ended".to_owned()));
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    let when = host.world.now().to_string();
    for part in ["(idle)", when.as_str(), "not delivered", "?resume=true", "Stopped after"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(runner.script().engines.is_empty());

    let row = host.post(&format!("{path}?resume=true"), json!({"text": "go on", "message_id": "m-1"})).await.ok();
    assert_eq!((&row["id"], &row["generation"], &row["status"]), (&json!(id), &json!(2), &json!("active")));
    let start = runner.calls_of(Verb::Start).pop().unwrap();
    assert_eq!((&start.body["engine_session_id"], &start.body["owner_id"]), (&json!(CONVERSATION), &json!("me")));
    host.post(&format!("{path}?resume=true"), json!({"text": "go on", "message_id": "m-1"})).await.ok();
    assert_eq!(runner.script().engines[&id.parse().unwrap()].messages, ["go on"]);
}

#[tokio::test]
async fn a_session_without_a_conversation_offers_nothing() {
    let host = Host::new().await;
    let _runner = host.world.runner().await;
    let opened = host.post("/v1/sessions", json!({"repo": "/src/app", "engine": "fake"})).await.ok();
    let path = format!("/v1/sessions/{}/messages", opened["session"]["id"].as_str().unwrap());
    host.world.clock.advance(6 * HOUR + 5 * MINUTE);
    host.post("/v1/sweeps", json!({})).await.ok();
    let answer = host.post(&path, json!({"text": "go on"})).await;
    assert_eq!(answer.error(), (410, "ended".to_owned()));
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("cannot be resumed"));
    assert_eq!(host.post(&format!("{path}?resume=true"), json!({"text": "go on"})).await.code(), "conflict");
}
