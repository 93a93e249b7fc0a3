//! Using a session over the API: messages with their options, co-pilot turns, interrupt, clear, is-generating, lists.

use serde_json::{Value, json};
use sexton::protocol::{EngineState, Told};
use sexton::session::{ActivityKind, Session, Status};
use sexton::time::{HOUR, MINUTE};

use crate::api::{Ask, Host, make_token};
use crate::support::fake_runner::{Answering, FakeRunner, Raw, Verb, When};
use crate::support::world::silent;

async fn held() -> (Host, FakeRunner, Session) {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.held(&runner, "s", HOUR).await;
    (host, runner, session)
}

#[tokio::test]
async fn each_of_the_five_ways_to_use_a_session_writes_its_kind() {
    let wish = json!({"session_id": "s"});
    let text = json!({"text": "go on"});
    for (kind, method, path, body) in [
        (ActivityKind::Capture, "POST", "/v1/sessions/s/activity", json!({"kind": "capture"})),
        (ActivityKind::Message, "POST", "/v1/sessions/s/messages", text.clone()),
        (ActivityKind::Message, "POST", "/v1/sessions/s/interrupt", json!({})),
        (ActivityKind::Message, "POST", "/v1/sessions/s/clear", json!({})),
        (ActivityKind::Run, "POST", "/v1/runs", wish.clone()),
        (ActivityKind::Copilot, "POST", "/v1/sessions/s/copilot", text.clone()),
        (ActivityKind::Timeline, "GET", "/v1/sessions/s/timeline", Value::Null),
    ] {
        let (host, runner, session) = held().await;
        let ask = Ask::new(method, path).token(&host.token);
        let ask = if body.is_null() { ask } else { ask.json(&body) };
        host.ask(ask).await.ok();
        host.worker.recorder.flush().await;
        let row = host.world.read(&session).await;
        assert_eq!((row.last_activity_kind, row.last_activity_at), (Some(kind), Some(host.world.now())), "{path}");
        let told = runner.calls().iter().any(|call| call.verb != Verb::Sessions);
        assert!(told, "{path}: the runner heard of it");
    }
}

#[tokio::test]
async fn a_message_that_is_waited_for_is_a_use_at_its_beginning_and_at_its_end() {
    let (host, runner, session) = held().await;
    let gate = runner.hold(Verb::Messages, When::Decided);
    let began = host.world.now();

    let (answer, ()) =
        tokio::join!(host.post("/v1/sessions/s/messages", json!({"text": "go on", "wait": true})), async {
            gate.reached().await;
            let row = host.world.read(&session).await;
            assert_eq!((row.last_activity_at, row.last_activity_kind), (Some(began), Some(ActivityKind::Message)));
            assert_eq!(runner.calls_of(Verb::Touch).len(), 1, "runner first");
            host.world.clock.advance(20 * MINUTE);
            gate.open();
        });

    let answer = answer.ok();
    assert_eq!(answer["turn"], "over");
    assert_eq!((answer["id"].as_str(), answer["last_activity_kind"].as_str()), (Some("s"), Some("message")));
    assert_eq!(host.world.read(&session).await.last_activity_at, Some(began.plus(20 * MINUTE)));
    let asked = &runner.calls_of(Verb::Messages)[0].body;
    assert_eq!((asked["wait"].as_bool(), asked["owner_id"].as_str()), (Some(true), Some("me")));
}

#[tokio::test]
async fn what_became_of_a_turn_is_told_as_the_runner_tells_it() {
    for (said, expected) in [(json!("running"), "running"), (json!("untold"), "untold"), (Value::Null, "untold")] {
        let (host, runner, _) = held().await;
        runner.answer(Verb::Messages, None, Answering::Altered(json!({"turn": said})));
        let answer = host.post("/v1/sessions/s/copilot", json!({"text": "go on", "wait": true})).await.ok();
        assert_eq!(answer["turn"], expected);
        assert_eq!(answer["last_activity_kind"], "copilot");
    }
}

#[tokio::test]
async fn a_message_of_an_id_that_was_taken_is_not_written_again() {
    let (host, runner, session) = held().await;
    for _ in 0..2 {
        let sent = host.post("/v1/sessions/s/messages", json!({"text": "go on", "message_id": "m-1"})).await.ok();
        assert!(sent.get("turn").is_none(), "nobody waited");
    }
    assert_eq!(runner.script().engines[&session.id].messages, ["go on"]);
    let bad = host.post("/v1/sessions/s/messages", json!({"text": "x", "message_id": "not an id"})).await;
    assert_eq!(bad.code(), "bad_body");
}

#[tokio::test]
async fn what_a_runner_does_not_take_is_no_use_and_says_why() {
    for path in ["messages", "copilot", "interrupt", "clear"] {
        let path = format!("/v1/sessions/s/{path}");
        let text = if path.ends_with('s') || path.ends_with("copilot") { json!({"text": "x"}) } else { json!({}) };
        let host = Host::new().await;
        let runner = host.world.runner().await;
        let session = host.world.session("s", HOUR, |_| ()).await;
        assert_eq!(
            host.post(&path, text.clone()).await.error(),
            (404, "not_tracked".to_owned()),
            "{path}: not tracked"
        );
        assert!(host.world.read(&session).await.is_open(), "not_tracked on an owner's behalf never closes a row");
        runner.hold_engine(&session.id, 2, silent(HOUR));
        assert_eq!(host.post(&path, text.clone()).await.error(), (409, "generation".to_owned()), "{path}: generation");
        runner.hold_engine(&session.id, 1, silent(HOUR));
        runner.script().end_by_itself(&session.id, "exited", &host.world.clock);
        assert_eq!(host.post(&path, text.clone()).await.error(), (410, "ended".to_owned()), "{path}: ended");
        let row = host.world.read(&session).await;
        assert_eq!((row.status, row.last_activity_at), (Status::Ended, session.last_activity_at), "{path}");
        assert_eq!(host.post(&path, text).await.error(), (410, "ended".to_owned()), "{path}: ended before");
    }
}

#[tokio::test]
async fn that_no_engine_or_another_start_is_held_is_one_answer_on_every_route_and_not_that_of_an_unknown_id() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", HOUR, |_| ()).await;
    let unknown = host.get("/v1/sessions/unknown/capture").await;
    for (status, code, holds) in [(404, "not_tracked", "no engine for"), (409, "generation", "another start of")] {
        if status == 409 {
            runner.hold_engine(&session.id, 2, silent(HOUR));
        }
        let told = host.get("/v1/sessions/s/capture").await;
        assert_eq!(told.error(), (status, code.to_owned()));
        let message = told.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(&format!("runner mac-mini holds {holds} session s; ")), "{message}");
        assert_ne!(told.body, unknown.body, "one's own session is there");
        for (path, body) in [
            ("/v1/sessions/s/activity", json!({"kind": "capture"})),
            ("/v1/sessions/s/messages", json!({"text": "x"})),
            ("/v1/sessions/s/messages", json!({"text": "x", "wait": true})),
            ("/v1/sessions/s/copilot", json!({"text": "x"})),
            ("/v1/sessions/s/interrupt", json!({})),
            ("/v1/sessions/s/clear", json!({})),
            ("/v1/sessions/s/keep", json!({"for": "1h", "because": "a demo"})),
            ("/v1/sessions/s/driver", json!({"driver": "ada"})),
            ("/v1/runs", json!({"session_id": "s"})),
        ] {
            let answer = host.post(path, body).await;
            assert_eq!((answer.status, &answer.body), (told.status, &told.body), "{path}");
        }
        assert_eq!(host.world.read(&session).await, session, "none of that is a use, and none closes the row");
    }
}

#[tokio::test]
async fn a_turn_is_interrupted() {
    let (host, runner, session) = held().await;
    assert_eq!(host.post("/v1/sessions/s/interrupt", json!({})).await.ok()["status"], "active");
    assert_eq!(runner.script().engines[&session.id].interrupts, 1);
    assert_eq!(runner.calls_of(Verb::Interrupt)[0].body["owner_id"], "me");
}

#[tokio::test]
async fn a_fresh_conversation_has_another_id_of_the_engines_own_and_the_row_knows_it() {
    let host = Host::new().await;
    let runner = host.world.runner().await;
    let session = host.world.session("s", HOUR, |row| row.engine_session_id = Some("old".to_owned())).await;
    runner.hold_engine(&session.id, 1, silent(HOUR));
    let cleared = host.post("/v1/sessions/s/clear", json!({})).await.ok();
    assert_eq!((cleared["engine_session_id"].as_str(), &cleared["generation"]), (Some("fresh"), &json!(1)));

    let unable = json!({"protocol": 1, "runner_id": "mac-mini", "epoch": 1, "ready": true, "session_id": "s",
        "generation": 1, "outcome": "unsupported", "message": "The engine \"x\" cannot begin a fresh conversation."});
    runner.answer(Verb::Clear, None, Answering::Raw(Raw::json(409, unable.to_string())));
    assert_eq!(host.post("/v1/sessions/s/clear", json!({})).await.error(), (409, "conflict".to_owned()));
}

#[tokio::test]
async fn whether_an_engine_works_is_asked_without_using_it() {
    let (host, runner, session) = held().await;
    let before = host.world.read(&session).await;
    let quiet = host.get("/v1/sessions/s/generating").await.ok();
    assert_eq!(
        quiet,
        json!({"session_id": "s", "generating": false, "background_tasks": 0, "awaiting_input": false, "stalled": null,
            "runner": "answered", "why": null})
    );
    let busy = EngineState { generating: Told::Is(true), background_tasks: Told::Is(2), ..silent(0) };
    runner.hold_engine(&session.id, 1, busy);
    let busy = host.get("/v1/sessions/s/generating").await.ok();
    assert_eq!((&busy["generating"], &busy["background_tasks"]), (&json!(true), &json!(2)));
    assert_eq!(runner.calls().iter().filter(|call| call.verb != Verb::Sessions).count(), 0, "only read-only questions");
    assert_eq!(host.world.read(&session).await, before);
}

#[tokio::test]
async fn what_nobody_knows_of_an_engine_is_null_with_a_reason() {
    let (host, mut runner, session) = held().await;
    runner.hold_engine(&session.id, 2, silent(0));
    let other = host.get("/v1/sessions/s/generating").await.ok();
    assert_eq!((&other["generating"], other["runner"].as_str()), (&Value::Null, Some("answered")));
    assert!(other["why"].as_str().unwrap().contains("holds no engine"), "{other}");
    runner.hold_engine(&session.id, 1, EngineState { generating: Told::Unknown, ..silent(0) });
    assert!(host.get("/v1/sessions/s/generating").await.ok()["why"].as_str().unwrap().contains("cannot tell"));
    runner.die().await;
    let away = host.get("/v1/sessions/s/generating").await.ok();
    assert_eq!((&away["generating"], away["runner"].as_str()), (&Value::Null, Some("unreached")));
    assert!(away["why"].as_str().unwrap().contains("mac-mini"), "{away}");
}

#[tokio::test]
async fn a_list_is_narrowed_by_each_column_and_shows_only_ones_own() {
    let host = Host::new().await;
    host.world.session("a", 0, |_| ()).await;
    host.world.session("b", 0, |row| row.engine = "codex".to_owned()).await;
    host.world.session("c", 0, |row| row.runner_id = "other".parse().unwrap()).await;
    host.world.session("d", 0, |row| row.status = Status::Starting).await;
    host.world.session("e", 0, |row| row.status = Status::Ended).await;
    host.world.session("f", 0, |row| row.owner_id = Some("you".to_owned())).await;
    let mine = make_token(&host.world, "me", "read").await;
    for (query, expected) in [
        ("", "abcd"),
        ("?repo=/src/a", "a"),
        ("?repo=/src", ""),
        ("?repo=/src/f", ""),
        ("?engine=codex", "b"),
        ("?runner=other", "c"),
        ("?status=starting", "d"),
        ("?status=ended", "e"),
        ("?status=active&engine=claude", "ac"),
        ("?all=true&engine=claude", "acde"),
    ] {
        let list = host.ask(Ask::new("GET", &format!("/v1/sessions{query}")).token(&mine)).await.ok();
        let ids: String = list["items"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{query}");
    }
    let ask = |query: &str| Ask::new("GET", &format!("/v1/sessions?{query}")).token(&mine);
    assert_eq!(host.ask(ask("status=gone")).await.code(), "bad_query");
}
