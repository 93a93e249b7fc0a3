//! A session that was closed since its machine was gone, asked for again.

use sexton::entry::EntryKind;
use sexton::session::Status;
use sexton::time::HOUR;
use sexton::verbs::StartWish;

use crate::ensure::{ensure, kinds, lose, opened, wish};
use crate::support::fake_runner::{FakeRunner, Verb};
use crate::support::world::World;

/// A session whose row was closed as `machine_gone`, on a runner that is back.
async fn closed(world: &World) -> (FakeRunner, sexton::session::Session) {
    let mut runner = world.runner().await;
    let session = opened(world, &runner).await;
    runner.die().await;
    world.clock.advance(7 * HOUR);
    world.sweep().await;
    let row = world.read(&session).await;
    assert_eq!(row.end_reason.as_deref(), Some("machine_gone"));
    runner.restart().await;
    (runner, row)
}

#[tokio::test]
async fn one_whose_engine_is_still_there_is_opened_again_and_not_opened() {
    let world = World::new().await;
    let (runner, row) = closed(&world).await;
    let again = ensure(&world, &wish()).await.unwrap();
    assert_eq!((again.opened, again.launched, &again.session.id), (false, false, &row.id));
    assert_eq!((again.session.status, again.session.reopened, again.session.generation), (Status::Active, 1, 1));
    assert_eq!(runner.calls_of(Verb::Start).len(), 1);
    assert_eq!(kinds(&world, &row).await, [EntryKind::Started, EntryKind::Ended, EntryKind::Reopened]);
    world.sweep().await;
    assert!(runner.script().stops.is_empty());
}

#[tokio::test]
async fn one_whose_engine_is_gone_stays_closed_and_a_new_session_is_opened() {
    let world = World::new().await;
    let (runner, row) = closed(&world).await;
    lose(&runner, &row);
    let again = ensure(&world, &wish()).await.unwrap();
    assert!(again.opened && again.session.id != row.id);
    assert_eq!(world.read(&row).await, row);
}

#[tokio::test]
async fn one_with_another_engine_is_not_asked_for() {
    let world = World::new().await;
    let (runner, row) = closed(&world).await;
    let touches = runner.calls_of(Verb::Touch).len();
    let other = ensure(&world, &StartWish { engine: "other".to_owned(), ..wish() }).await.unwrap();
    assert!(other.opened);
    assert_eq!(runner.calls_of(Verb::Touch).len(), touches);
    assert_eq!(world.read(&row).await, row);
}
