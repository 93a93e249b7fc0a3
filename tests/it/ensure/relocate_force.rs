//! A session that is asked for on another runner, whose old runner is out of reach.

use serde_json::json;
use sexton::entry::EntryKind;
use sexton::protocol::{EngineState, Told};
use sexton::session::{ActivityKind, Session, Status};
use sexton::store::Touch;
use sexton::time::HOUR;
use sexton::verbs::{StartWish, VerbError};

use crate::ensure::{ensure, entries, kinds, opened, second_runner, start_failed, wish_there};
use crate::support::fake_runner::{Answering, Raw, Verb};
use crate::support::world::{World, id, silent};

#[tokio::test]
async fn out_of_reach_it_is_refused_with_the_reason_and_moved_only_by_force() {
    let world = World::new().await;
    let (mut old, new) = (world.runner().await, second_runner(&world).await);
    let session = opened(&world, &old).await;
    old.die().await;
    let refused = ensure(&world, &wish_there()).await.unwrap_err();
    assert!(matches!(&refused, VerbError::Conflict(why) if why.contains("two engines might write")), "{refused}");
    assert_eq!(world.read(&session).await, session);

    let moved = ensure(&world, &StartWish { force: true, ..wish_there() }).await.unwrap();
    assert_eq!((moved.opened, &moved.session.runner_id, moved.session.generation), (false, &id("pc"), 2));
    assert_eq!(new.calls_of(Verb::Start).len(), 1);
    let told = entries(&world, &session).await.pop().unwrap();
    assert_eq!((told.kind, &told.evidence["forced"]), (EntryKind::Relocated, &json!(true)));
    assert!(told.message.contains("NOT stopped"), "{}", told.message);
}

#[tokio::test]
async fn anything_but_an_answer_counts_as_out_of_reach() {
    for (verb, answering) in [
        (Verb::Sessions, Answering::Raw(Raw::bare(401))),
        (Verb::Sessions, Answering::Raw(Raw::bare(500))),
        (Verb::Sessions, Answering::Reset),
        (Verb::Sessions, Answering::Raw(Raw::json(200, r#"{"tracked":null}"#))),
        (Verb::End, Answering::Raw(Raw::bare(500))),
        (Verb::End, Answering::Reset),
    ] {
        let world = World::new().await;
        let (old, _new) = (world.runner().await, second_runner(&world).await);
        let session = opened(&world, &old).await;
        old.answer(verb, None, answering.clone());
        let refused = ensure(&world, &wish_there()).await;
        assert!(matches!(refused, Err(VerbError::Conflict(_))), "{verb:?} {answering:?}");
        assert_eq!(world.read(&session).await, session, "{verb:?} {answering:?}");
        let moved = ensure(&world, &StartWish { force: true, ..wish_there() }).await.unwrap();
        assert_eq!(moved.session.runner_id, id("pc"), "{verb:?} {answering:?}");
    }
}

#[tokio::test]
async fn the_engine_left_behind_is_stopped_as_a_stray_once_it_is_idle_and_back() {
    let world = World::new().await;
    let (mut old, new) = (world.runner().await, second_runner(&world).await);
    let session = opened(&world, &old).await;
    old.die().await;
    ensure(&world, &StartWish { force: true, ..wish_there() }).await.unwrap();
    old.restart().await;
    let busy = EngineState { generating: Told::Is(true), turn_silent_ms: Some(0), ..silent(0) };
    old.hold_engine(&session.id, 1, busy);
    world.sweep().await;
    assert!(old.script().stops.is_empty(), "it is at work");

    world.clock.advance(5 * HOUR);
    world.store().write_touches(&[touch(&world, &session)]).await.unwrap();
    old.hold_engine(&session.id, 1, silent(6 * HOUR));
    world.clock.advance(1);
    world.sweep().await;
    assert_eq!(old.script().stops.len(), 1);
    assert!(new.script().stops.is_empty());
    let row = world.read(&session).await;
    assert_eq!((row.status, &row.runner_id), (Status::Active, &id("pc")));
    let kinds = kinds(&world, &session).await;
    assert_eq!(kinds, [EntryKind::Started, EntryKind::Relocated, EntryKind::Stopped]);
}

fn touch(world: &World, session: &Session) -> Touch {
    Touch { id: session.id.clone(), at: world.now(), kind: ActivityKind::Capture }
}

#[tokio::test]
async fn moved_by_force_and_not_started_it_is_closed_and_not_started_beside_the_old_engine() {
    let world = World::new().await;
    let (mut old, new) = (world.runner().await, second_runner(&world).await);
    let session = opened(&world, &old).await;
    old.die().await;
    new.answer_once(Verb::Start, None, start_failed(2, &session, "pc"));
    let starts = old.calls_of(Verb::Start).len();
    ensure(&world, &StartWish { force: true, ..wish_there() }).await.unwrap_err();
    let row = world.read(&session).await;
    assert_eq!((row.status, row.end_reason.as_deref()), (Status::Ended, Some("start_failed")));
    assert_eq!(old.calls_of(Verb::Start).len(), starts);
}
