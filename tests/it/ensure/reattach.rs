//! An open row whose runner holds no engine for it: started again there, once, with its conversation.

use serde_json::json;
use sexton::entry::EntryKind;
use sexton::session::Status;
use sexton::time::HOUR;
use sexton::verbs::{self, VerbError};
use tokio::task::JoinSet;

use crate::ensure::{CONVERSATION, ensure, entries, kinds, lose, opened, start_failed, wish};
use crate::support::fake_runner::{Answering, Raw, Verb};
use crate::support::world::World;

#[tokio::test]
async fn attached_again_is_not_opened_and_goes_on_with_its_conversation_and_arguments() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = opened(&world, &runner).await;
    lose(&runner, &session);
    let again = ensure(&world, &wish()).await.unwrap();
    assert_eq!((again.opened, again.launched, &again.session.id), (false, true, &session.id));
    assert_eq!((again.session.generation, again.session.status), (2, Status::Active));
    let start = runner.calls_of(Verb::Start).pop().unwrap();
    let told = (&start.body["generation"], &start.body["engine_session_id"], &start.body["args"]);
    assert_eq!(told, (&json!(2), &json!(CONVERSATION), &json!(["--fast"])));
    assert_eq!(start.body["must_resume"], json!(null), "whoever wants a session gets one");
    let entry = entries(&world, &session).await.pop().unwrap();
    assert_eq!((entry.kind, entry.generation), (EntryKind::Started, 2));
    assert!(entry.message.starts_with("Attached again: "), "{}", entry.message);
}

/// A runner that takes the engine for somebody else's says to its owner that it holds none.
#[tokio::test]
async fn one_that_the_runner_hides_from_its_owner_is_left_as_it_is() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = opened(&world, &runner).await;
    let body = json!({"protocol": 1, "runner_id": "mac-mini", "epoch": 1, "ready": true, "session_id": session.id,
        "generation": 1, "outcome": "not_tracked", "message": "no engine of this session is held here"});
    runner.answer(Verb::Touch, None, Answering::Raw(Raw::json(404, body.to_string())));
    let starts = runner.calls_of(Verb::Start).len();
    let refused = ensure(&world, &wish()).await.unwrap_err();
    assert!(matches!(&refused, VerbError::Conflict(why) if why.contains("holds an engine")), "{refused}");
    let row = world.read(&session).await;
    assert_eq!((row.status, row.generation), (Status::Active, 1));
    assert_eq!((kinds(&world, &session).await.len(), runner.calls_of(Verb::Start).len()), (1, starts));
    assert!(runner.script().engines.contains_key(&session.id));
}

#[tokio::test]
async fn fifty_at_once_attach_it_once() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = opened(&world, &runner).await;
    lose(&runner, &session);
    let mut asking = JoinSet::new();
    for _ in 0..50 {
        let tools = world.tools.clone();
        asking.spawn(async move { verbs::start(&tools, &wish(), &verbs::person(&tools, "me")).await.unwrap() });
    }
    let got = asking.join_all().await;
    assert!(got.iter().all(|one| !one.opened && one.session.id == session.id && one.session.generation == 2));
    assert_eq!(got.iter().filter(|one| one.launched).count(), 1);
    assert_eq!(runner.calls_of(Verb::Start).len(), 2);
    assert_eq!(kinds(&world, &session).await, [EntryKind::Started; 2]);
}

#[tokio::test]
async fn one_that_does_not_start_again_is_closed_and_keeps_its_conversation() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = opened(&world, &runner).await;
    lose(&runner, &session);
    runner.answer_once(Verb::Start, None, start_failed(2, &session, "mac-mini"));
    ensure(&world, &wish()).await.unwrap_err();
    let row = world.read(&session).await;
    assert_eq!((row.status, row.end_reason.as_deref(), row.generation), (Status::Ended, Some("start_failed"), 2));
    assert_eq!(row.engine_session_id.as_deref(), Some(CONVERSATION));
}

#[tokio::test]
async fn whatever_does_not_say_that_there_is_no_engine_attaches_nothing() {
    let not_ready = json!({"protocol": 1, "runner_id": "mac-mini", "epoch": 1, "ready": false,
        "outcome": "not_tracked", "message": "not yet", "session_id": "x", "generation": 1});
    for answering in [
        Answering::Reset,
        Answering::Raw(Raw::bare(404)),
        Answering::Raw(Raw::bare(401)),
        Answering::Raw(Raw::bare(500)),
        Answering::Raw(Raw::json(404, not_ready.to_string())),
    ] {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = opened(&world, &runner).await;
        world.clock.advance(HOUR);
        runner.answer(Verb::Touch, None, answering.clone());
        let again = ensure(&world, &wish()).await.unwrap();
        assert_eq!((again.opened, again.session.generation), (false, 1), "{answering:?}");
        assert_eq!(runner.calls_of(Verb::Start).len(), 1, "{answering:?}");
        assert_eq!(world.read(&session).await.status, Status::Active);
    }
}

#[tokio::test]
async fn another_start_of_the_session_on_its_runner_is_left_alone() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = opened(&world, &runner).await;
    runner.script().engines.get_mut(&session.id).unwrap().generation = 5;
    assert!(matches!(ensure(&world, &wish()).await, Err(VerbError::Generation { .. })));
    assert_eq!(runner.calls_of(Verb::Start).len(), 1);
}
