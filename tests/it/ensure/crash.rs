//! A worker that dies between row and engine: no row stays in `starting`.

use sexton::entry::EntryKind;
use sexton::session::{Session, Status};
use sexton::time::MINUTE;
use sexton::verbs::{self, StartWish};

use crate::ensure::{CONVERSATION, REPO, ensure, kinds, lose, opened, second_runner, wish, wish_there};
use crate::support::fake_runner::{Answering, FakeRunner, Verb, When};
use crate::support::world::{World, id};

/// Ensures, and dies when the runner stands at that point of that call.
async fn dies_at(world: &World, wish: StartWish, (runner, verb, when): (&FakeRunner, Verb, When)) {
    let gate = runner.hold(verb, when);
    let tools = world.tools.clone();
    let task = tokio::spawn(async move { verbs::start(&tools, &wish, &verbs::person(&tools, "me")).await });
    gate.reached().await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    runner.unhook();
    gate.open();
}

async fn row(world: &World) -> Session {
    world.store().find_open_session(Some("me"), REPO).await.unwrap().unwrap()
}

/// Lets the start be overdue, and sweeps.
async fn later(world: &World) {
    world.clock.advance(2 * MINUTE);
    world.sweep().await;
}

#[tokio::test]
async fn between_row_and_start_a_runner_without_the_engine_closes_it() {
    let world = World::new().await;
    let _runner = world.runner().await;
    let session = Session { status: Status::Starting, repo: REPO.to_owned(), ..world.row("s", 0) };
    let session = Session { attached_at: Some(world.now()), ..session };
    let entry = sexton::timeline::started(&session, &verbs::person(&world.tools, "me"), world.now());
    world.store().insert_started(&session, &[], &entry).await.unwrap();
    world.clock.advance(2 * MINUTE - 1);
    world.sweep().await;
    assert_eq!(world.read(&session).await.status, Status::Starting);
    world.clock.advance(1);
    world.sweep().await;
    let row = world.read(&session).await;
    assert_eq!((row.status, row.end_reason.as_deref()), (Status::Ended, Some("start_failed")));
    assert!(ensure(&world, &wish()).await.unwrap().opened, "the place is free");
}

#[tokio::test]
async fn after_the_start_the_runners_engine_makes_it_active() {
    let world = World::new().await;
    let runner = world.runner().await;
    dies_at(&world, wish(), (&runner, Verb::Start, When::Decided)).await;
    let session = row(&world).await;
    assert_eq!(session.status, Status::Starting);
    later(&world).await;
    assert_eq!(world.read(&session).await.status, Status::Active);
    assert!(!ensure(&world, &wish()).await.unwrap().opened);
}

#[tokio::test]
async fn with_the_runner_out_of_reach_it_is_kept_until_that_is_back() {
    let world = World::new().await;
    let mut runner = world.runner().await;
    dies_at(&world, wish(), (&runner, Verb::Start, When::Decided)).await;
    let session = row(&world).await;
    runner.die().await;
    later(&world).await;
    assert_eq!(world.read(&session).await.status, Status::Starting);
    runner.restart().await;
    world.sweep().await;
    assert_eq!(world.read(&session).await.status, Status::Active);
}

#[tokio::test]
async fn in_the_middle_of_attaching_again() {
    for (when, then) in [(When::Decided, Status::Active), (When::Arrived, Status::Ended)] {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = opened(&world, &runner).await;
        lose(&runner, &session);
        if when == When::Arrived {
            runner.answer(Verb::Start, None, Answering::Hang);
        }
        dies_at(&world, wish(), (&runner, Verb::Start, when)).await;
        assert_eq!((row(&world).await.generation, row(&world).await.status), (2, Status::Starting));
        later(&world).await;
        let row = world.read(&session).await;
        assert_eq!((row.status, row.engine_session_id.as_deref()), (then, Some(CONVERSATION)), "{when:?}");
    }
}

#[tokio::test]
async fn after_the_stop_of_a_move_the_row_is_closed_as_relocated_and_can_be_resumed() {
    let world = World::new().await;
    let (old, _new) = (world.runner().await, second_runner(&world).await);
    let session = opened(&world, &old).await;
    dies_at(&world, wish_there(), (&old, Verb::End, When::Decided)).await;
    assert_eq!(row(&world).await.status, Status::Active);
    world.sweep().await;
    let closed = world.read(&session).await;
    assert_eq!((closed.status, closed.end_reason.as_deref()), (Status::Ended, Some("relocated")));
    assert_eq!(kinds(&world, &session).await, [EntryKind::Started, EntryKind::Ended]);
    let actor = verbs::person(&world.tools, "me");
    let resumed = verbs::resume(&world.tools, &session.id, &actor).await.unwrap();
    assert_eq!((resumed.status, resumed.generation), (Status::Active, 2));
}

#[tokio::test]
async fn after_the_stop_of_a_move_the_next_who_asks_moves_it() {
    let world = World::new().await;
    let (old, _new) = (world.runner().await, second_runner(&world).await);
    let session = opened(&world, &old).await;
    dies_at(&world, wish_there(), (&old, Verb::End, When::Decided)).await;
    let moved = ensure(&world, &wish_there()).await.unwrap();
    assert_eq!((moved.opened, &moved.session.id, &moved.session.runner_id), (false, &session.id, &id("pc")));
    assert_eq!(old.script().stops.len(), 1);
}

#[tokio::test]
async fn after_the_stop_of_a_move_and_a_pass_the_session_goes_on_instead_of_a_new_one() {
    for (wish, place) in [(wish(), "mac-mini"), (wish_there(), "pc")] {
        let world = World::new().await;
        let (old, _new) = (world.runner().await, second_runner(&world).await);
        let session = opened(&world, &old).await;
        dies_at(&world, wish_there(), (&old, Verb::End, When::Decided)).await;
        world.sweep().await;
        let again = ensure(&world, &wish).await.unwrap();
        assert_eq!((again.opened, &again.session.id, &again.session.runner_id), (false, &session.id, &id(place)));
        assert_eq!(again.session.engine_session_id.as_deref(), Some(CONVERSATION));
    }
}

#[tokio::test]
async fn after_the_row_moved_a_pass_tells_of_the_old_engine_and_settles_the_start() {
    let world = World::new().await;
    let (old, new) = (world.runner().await, second_runner(&world).await);
    let session = opened(&world, &old).await;
    // Dies before it could tell the old runner to forget: the start comes after that.
    dies_at(&world, wish_there(), (&old, Verb::Forget, When::Arrived)).await;
    let moved = row(&world).await;
    assert_eq!((moved.status, &moved.runner_id, moved.generation), (Status::Starting, &id("pc"), 2));
    later(&world).await;
    let row = world.read(&session).await;
    assert_eq!((row.status, row.end_reason.as_deref()), (Status::Ended, Some("start_failed")));
    assert_eq!(row.engine_session_id.as_deref(), Some(CONVERSATION));
    assert!(new.calls_of(Verb::Start).is_empty());
    let told = kinds(&world, &session).await;
    assert_eq!(told.iter().filter(|kind| **kind == EntryKind::Stopped).count(), 1, "{told:?}");
}
