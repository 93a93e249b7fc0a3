//! A message to a session that was reaped: never swallowed, and delivered once when it is resumed.

use serde_json::json;
use sexton::entry::EntryKind;
use sexton::session::{Session, Status};
use sexton::time::HOUR;
use sexton::verbs::{self, Message, VerbError};

use crate::ensure::{CONVERSATION, ensure, entries, kinds, lose, opened, start_failed, wish};
use crate::support::fake_runner::{Answering, FakeRunner, Raw, Verb, When};
use crate::support::world::{World, silent};

/// A session with a conversation that a pass has reaped.
async fn reaped() -> (World, FakeRunner, Session) {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = opened(&world, &runner).await;
    world.clock.advance(6 * HOUR);
    world.sweep().await;
    let row = world.read(&session).await;
    assert_eq!(row.end_reason.as_deref(), Some("idle"));
    (world, runner, row)
}

async fn send(world: &World, session: &Session, text: &str) -> Result<Session, VerbError> {
    let actor = verbs::person(&world.tools, "me");
    Ok(verbs::send_resuming(&world.tools, &session.id, &Message::new(text), &actor).await?.session)
}

fn messages(runner: &FakeRunner, session: &Session) -> Vec<String> {
    runner.script().engines[&session.id].messages.clone()
}

#[tokio::test]
async fn without_resume_it_is_refused_and_the_farewell_says_why_and_when() {
    let (world, runner, session) = reaped().await;
    assert!(matches!(
        verbs::send(&world.tools, &session.id, &Message::new("wait")).await,
        Err(VerbError::Ended { .. })
    ));
    let farewell = verbs::farewell(&world.tools, &session.id).await.unwrap();
    assert!(farewell.may_resume);
    assert_eq!(farewell.how, format!("the session has ended (idle) at {}", session.ended_at.unwrap()));
    assert!(farewell.story.unwrap().starts_with("Stopped after"));
    assert!(runner.script().engines.is_empty());
}

#[tokio::test]
async fn with_resume_the_next_start_has_its_context_and_gets_the_message_once() {
    let (world, runner, session) = reaped().await;
    let row = send(&world, &session, "go on").await.unwrap();
    assert_eq!((&row.id, row.generation, row.status), (&session.id, 2, Status::Active));
    assert_eq!((row.ended_at, row.end_reason), (None, None));
    let start = runner.calls_of(Verb::Start).pop().unwrap();
    let told = (&start.body["generation"], &start.body["engine_session_id"], &start.body["args"]);
    assert_eq!(told, (&json!(2), &json!(CONVERSATION), &json!(["--fast"])));
    assert_eq!(start.body["must_resume"], true, "a fresh conversation would not do");
    assert_eq!(messages(&runner, &session), ["go on"]);
    assert_eq!(kinds(&world, &session).await, [EntryKind::Started, EntryKind::Ended, EntryKind::Started]);
    assert!(entries(&world, &session).await[2].message.starts_with("Resumed: it had ended (idle)"));
    world.clock.advance(6 * HOUR);
    world.sweep().await;
    assert_eq!(world.read(&session).await.end_reason.as_deref(), Some("idle"), "it lives as any other");
}

#[tokio::test]
async fn an_open_session_just_gets_it() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = opened(&world, &runner).await;
    send(&world, &session, "go on").await.unwrap();
    assert_eq!((messages(&runner, &session).len(), runner.calls_of(Verb::Start).len()), (1, 1));
}

#[tokio::test]
async fn an_open_session_whose_engine_is_gone_or_ended_gets_it_after_the_next_start() {
    for ended in [false, true] {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = opened(&world, &runner).await;
        if ended {
            runner.script().end_by_itself(&session.id, "exited", &world.clock);
        } else {
            lose(&runner, &session);
        }
        let row = send(&world, &session, "go on").await.unwrap();
        assert_eq!((row.generation, messages(&runner, &session)), (2, vec!["go on".to_owned()]), "ended: {ended}");
    }
}

#[tokio::test]
async fn two_at_once_start_one_engine_and_both_are_delivered_once() {
    let (world, runner, session) = reaped().await;
    let (one, two) = tokio::join!(send(&world, &session, "one"), send(&world, &session, "two"));
    assert_eq!((one.unwrap().generation, two.unwrap().generation), (2, 2));
    assert_eq!(runner.calls_of(Verb::Start).len(), 2, "the first one and one more");
    let mut got = messages(&runner, &session);
    got.sort();
    assert_eq!(got, ["one", "two"]);
}

#[tokio::test]
async fn a_lost_acknowledgement_delivers_it_once_all_the_same() {
    let (world, runner, session) = reaped().await;
    runner.answer_once(Verb::Messages, None, Answering::DoThen(Box::new(Answering::Reset)));
    send(&world, &session, "go on").await.unwrap();
    assert_eq!(runner.calls_of(Verb::Messages).len(), 2);
    assert_eq!(messages(&runner, &session), ["go on"]);
}

#[tokio::test]
async fn one_that_may_have_been_taken_by_an_engine_that_is_gone_is_not_given_to_the_next() {
    let (world, runner, session) = reaped().await;
    runner.answer_once(Verb::Messages, None, Answering::DoThen(Box::new(Answering::Reset)));
    let gate = runner.hold(Verb::Messages, When::Decided);
    let (sent, ()) = tokio::join!(send(&world, &session, "go on"), async {
        gate.reached().await;
        runner.script().end_by_itself(&session.id, "exited", &world.clock);
        gate.open();
    });
    let error = sent.unwrap_err();
    assert!(matches!(&error, VerbError::Runner(why) if why.contains("may not have been delivered")), "{error}");
    assert_eq!(runner.calls_of(Verb::Start).len(), 2, "no third engine gets it");
}

#[tokio::test]
async fn without_a_conversation_nothing_fresh_is_begun_silently() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = ensure(&world, &wish()).await.unwrap().session;
    world.clock.advance(6 * HOUR);
    world.sweep().await;
    let refused = send(&world, &session, "go on").await.unwrap_err();
    assert!(matches!(&refused, VerbError::Conflict(why) if why.contains("fresh")), "{refused}");
    assert!(!verbs::farewell(&world.tools, &session.id).await.unwrap().may_resume);
    assert_eq!((world.read(&session).await.status, runner.calls_of(Verb::Start).len()), (Status::Ended, 1));
}

#[tokio::test]
async fn with_its_place_taken_it_is_refused_and_names_who_has_it() {
    let (world, runner, session) = reaped().await;
    let other = ensure(&world, &wish()).await.unwrap().session;
    let refused = send(&world, &session, "go on").await.unwrap_err();
    assert!(matches!(&refused, VerbError::Conflict(why) if why.contains(other.id.as_str())), "{refused}");
    assert_eq!(world.read(&session).await, session);
    assert!(messages(&runner, &other).is_empty());
}

#[tokio::test]
async fn with_its_runner_out_of_reach_nothing_is_begun() {
    for how in ["dead", "401", "recovering"] {
        let (world, mut runner, session) = reaped().await;
        match how {
            "dead" => runner.die().await,
            "401" => runner.answer(Verb::Sessions, None, Answering::Raw(Raw::bare(401))),
            _ => runner.script().ready = false,
        }
        assert!(matches!(send(&world, &session, "go on").await, Err(VerbError::Runner(_))), "{how}");
        assert_eq!(world.read(&session).await, session, "{how}");
    }
}

#[tokio::test]
async fn one_that_does_not_start_is_closed_again_and_can_be_tried_again() {
    let (world, runner, session) = reaped().await;
    runner.answer_once(Verb::Start, None, start_failed(2, &session, "mac-mini"));
    let failed = send(&world, &session, "go on").await.unwrap_err();
    assert!(failed.to_string().contains("command not found"), "{failed}");
    let row = world.read(&session).await;
    assert_eq!((row.status, row.end_reason.as_deref()), (Status::Ended, Some("start_failed")));
    let row = send(&world, &session, "go on").await.unwrap();
    assert_eq!((row.generation, messages(&runner, &session)), (3, vec!["go on".to_owned()]));
}

#[tokio::test]
async fn one_whose_machine_was_gone_with_its_engine_goes_on_with_that_engine() {
    let world = World::new().await;
    let mut runner = world.runner().await;
    let session = opened(&world, &runner).await;
    runner.die().await;
    world.clock.advance(7 * HOUR);
    world.sweep().await;
    assert_eq!(world.read(&session).await.end_reason.as_deref(), Some("machine_gone"));
    runner.restart().await;
    runner.hold_engine(&session.id, 1, silent(7 * HOUR));
    let row = send(&world, &session, "go on").await.unwrap();
    assert_eq!((row.status, row.generation, row.reopened), (Status::Active, 1, 1));
    assert_eq!((messages(&runner, &session).len(), runner.calls_of(Verb::Start).len()), (1, 1));
}

#[tokio::test]
async fn a_message_of_one_id_is_taken_once() {
    let (world, runner, session) = reaped().await;
    let (message, actor) = (Message::new("go on"), verbs::person(&world.tools, "me"));
    for _ in 0..2 {
        verbs::send_resuming(&world.tools, &session.id, &message, &actor).await.unwrap();
    }
    assert_eq!(messages(&runner, &session), ["go on"]);
}

#[tokio::test]
async fn an_empty_message_resumes_nothing() {
    let (world, _runner, session) = reaped().await;
    assert!(matches!(send(&world, &session, "").await, Err(VerbError::Invalid(_))));
    assert_eq!(world.read(&session).await, session);
}
