//! A runner that is started after its worker: a person's wish waits for it a little, a pass does not.

use serde_json::json;
use sexton::session::Status;
use sexton::time::{HOUR, SECOND, Span};
use sexton::verbs::{self, Message, StartWish, VerbError};

use crate::support::fake_runner::{Answering, Raw, Verb};
use crate::support::world::{World, id};

fn wish() -> StartWish {
    StartWish::new("anna".to_owned(), "/src/app".to_owned(), "claude".to_owned())
}

/// The refusal of a runner that does not know its engines again yet.
fn not_ready() -> Answering {
    let body = json!({"protocol": 1, "runner_id": "mac-mini", "epoch": 1, "ready": false,
        "outcome": "not_ready", "message": "not yet"});
    Answering::Raw(Raw::json(503, body.to_string()))
}

#[tokio::test]
async fn a_start_waits_for_a_runner_that_is_not_ready() {
    let world = World::new().await;
    let runner = world.runner().await;
    runner.answer_once(Verb::Start, None, not_ready());
    runner.answer_once(Verb::Start, None, not_ready());
    let started = verbs::start(&world.tools, &wish(), &verbs::person(&world.tools, "anna")).await.unwrap();
    assert_eq!((started.session.status, runner.calls_of(Verb::Start).len()), (Status::Active, 3));
}

#[tokio::test]
async fn a_message_waits_for_a_runner_that_is_not_there_and_is_delivered_once() {
    let world = World::new().await;
    let mut runner = world.runner().await;
    let session = world.held(&runner, "s", HOUR).await;
    runner.die().await;
    let tools = world.tools.clone();
    let sending = tokio::spawn(async move { verbs::send(&tools, &id("s"), &Message::new("go on")).await });
    runner.restart().await;
    sending.await.unwrap().unwrap();
    assert_eq!(runner.script().engines[&session.id].messages, ["go on"]);
}

#[tokio::test]
async fn the_wait_is_bounded_and_what_was_wished_is_then_refused() {
    let world = World::with(|config| config.limits.ready_wait = Span(SECOND / 5)).await;
    let mut runner = world.runner().await;
    let session = world.held(&runner, "s", HOUR).await;
    runner.answer(Verb::Start, None, not_ready());
    let refused = verbs::start(&world.tools, &wish(), &verbs::person(&world.tools, "anna")).await;
    assert!(matches!(&refused, Err(VerbError::Runner(why)) if why.ends_with("not yet")), "{refused:?}");
    assert_eq!(runner.calls_of(Verb::Start).len(), 3, "at once, and every tenth of a second");
    runner.die().await;
    assert!(matches!(verbs::send(&world.tools, &session.id, &Message::new("go on")).await, Err(VerbError::Runner(_))));
}

#[tokio::test]
async fn what_may_have_been_done_is_never_asked_again() {
    for answering in [Answering::Reset, Answering::Raw(Raw::bare(500)), Answering::Raw(Raw::bare(401))] {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = world.held(&runner, "s", HOUR).await;
        runner.answer(Verb::Messages, None, answering.clone());
        assert!(verbs::send(&world.tools, &session.id, &Message::new("go on")).await.is_err());
        assert_eq!(runner.calls_of(Verb::Messages).len(), 1, "{answering:?}");
    }
}

#[tokio::test]
async fn a_runner_without_its_secret_yet_is_waited_for() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", HOUR).await;
    let file = world.folder.path().join("runner.token");
    let mut row = world.store().find_runner(&id("mac-mini")).await.unwrap().unwrap();
    row.token_file = Some(file.to_str().unwrap().to_owned());
    world.store().add_runner(&row).await.unwrap();
    runner.script().secret = Some("t0ken".to_owned());
    let tools = world.tools.clone();
    let sending = tokio::spawn(async move { verbs::send(&tools, &id("s"), &Message::new("go on")).await });
    tokio::task::yield_now().await;
    std::fs::write(&file, "t0ken\n").unwrap();
    sending.await.unwrap().unwrap();
    assert_eq!(runner.script().engines[&session.id].messages, ["go on"]);
}

#[tokio::test]
async fn a_pass_does_not_wait() {
    let world = World::new().await;
    let mut runner = world.runner().await;
    world.held(&runner, "s", HOUR).await;
    runner.script().ready = false;
    world.sweep().await;
    assert_eq!(runner.calls_of(Verb::Sessions).len(), 1);
    runner.die().await;
    world.sweep().await;
    assert_eq!(runner.calls().len(), 1);
}
