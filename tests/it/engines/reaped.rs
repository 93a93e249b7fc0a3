//! A real engine, a runner and a whole worker: reaped by a sweep, written to, and taken up again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sexton::runner_client::{ClientSettings, HttpRunners};
use sexton::session::{Runner, Session, Status};
use sexton::time::Span;
use sexton::verbs::{self, Message, StartWish, VerbError};

use crate::support::model_api::ModelApi;
use crate::support::runner::{QUIET, TestRunner};
use crate::support::world::{World, id};

/// Makes a worker that has the runner enrolled, with the patience that a cold start of a large program needs.
async fn worker(runner: &TestRunner) -> World {
    let mut world = World::new().await;
    let settings = ClientSettings {
        connect_timeout: Span(5_000),
        timeout: Span(30_000),
        end_timeout: Span(60_000),
        send_timeout: Span(60_000),
        response_bytes: 1 << 20,
    };
    world.tools.runners = Arc::new(HttpRunners::new(&settings).unwrap());
    let row = Runner {
        id: id("runner-1"),
        url: runner.base.clone(),
        token_file: Some(runner.home.path().join("secret").display().to_string()),
        created_at: world.now(),
        last_seen_at: None,
        epoch: None,
        protocol: None,
        state_id: None,
        identity: Some("runner-1".to_owned()),
        require_conditional_stop: false,
    };
    world.store().add_runner(&row).await.unwrap();
    world
}

/// Waits until the model was asked something with this word in it, and the turn is over.
async fn over((runner, api): (&TestRunner, &ModelApi), session: &Session, word: &str) -> Value {
    for _ in 0..12_000 {
        if api.asked().iter().any(|text| text.contains(word)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(api.asked().iter().any(|text| text.contains(word)), "never asked {word:?}: {:?}", api.asked());
    let fits = |one: &Value| one["generating"] == false && one["engine_session_id"].is_string();
    runner.until_tracked(session.id.as_str(), "over", fits).await
}

/// A message to a reaped session is refused with the reason; resumed, the same conversation goes on.
pub(crate) async fn a_message_is_refused_and_then_goes_on(runner: TestRunner, api: &ModelApi, engine: &str) {
    let world = worker(&runner).await;
    let (tools, actor) = (&world.tools, verbs::person(&world.tools, "me"));
    let repo = runner.home.path().display().to_string();
    let wish = StartWish::new("me".to_owned(), repo, engine.to_owned());
    let session = verbs::start(tools, &wish, &actor).await.unwrap().session;
    verbs::send(tools, &session.id, &Message::new("@say the word is heron")).await.unwrap();
    let first = over((&runner, api), &session, "heron").await;

    let mut row = world.read(&session).await;
    // An engine that is slow says the last of a turn only after the clocks were moved: then the window begins anew.
    for _ in 0..5 {
        runner.clock.advance(QUIET);
        world.clock.advance(QUIET);
        world.sweep().await;
        row = world.read(&session).await;
        if !row.is_open() {
            break;
        }
    }
    assert_eq!((row.status, row.end_reason.as_deref()), (Status::Ended, Some("idle")));
    assert_eq!(row.engine_session_id.as_deref(), first["engine_session_id"].as_str());

    let refused = verbs::send(tools, &session.id, &Message::new("@recall")).await;
    assert!(matches!(refused, Err(VerbError::Ended { .. })), "{refused:?}");
    let farewell = verbs::farewell(tools, &session.id).await.unwrap();
    assert!(farewell.may_resume && farewell.how.contains("(idle)"), "{farewell:?}");
    assert!(!api.asked().iter().any(|text| text.contains("@recall")), "nothing reached the model");

    let resumed = verbs::send_resuming(tools, &session.id, &Message::new("@recall"), &actor).await.unwrap().session;
    assert_eq!((resumed.generation, resumed.status), (2, Status::Active));
    let again = over((&runner, api), &session, "@recall").await;
    assert_eq!(again["engine_session_id"], first["engine_session_id"], "the same conversation");
    let recalled = api.said().iter().filter(|text| *text == "recalled: the word is heron").count();
    assert_eq!(recalled, 1, "its history was in the request, once: {:?}", api.said());
    verbs::end(tools, &session.id, &actor).await.unwrap();
    runner.stop().await;
}
