//! A store that is lost or cannot be written: the pass ends before it has asked anybody to stop.

use sexton::report::Trigger;
use sexton::session::Session;
use sexton::store::StoreError;
use sexton::sweep::{Request, sweep};
use sexton::time::HOUR;
use sqlx::{Connection, SqliteConnection};
use tokio_util::sync::CancellationToken;

use crate::support::fake_runner::{FakeRunner, Verb};
use crate::support::world::World;

async fn with_an_idle_session() -> (World, FakeRunner, Session) {
    let world = World::new().await;
    let runner = world.runner().await;
    let idle = world.held(&runner, "idle", 6 * HOUR).await;
    (world, runner, idle)
}

async fn failed(world: &World) -> StoreError {
    sweep(&world.tools, Request::all(Trigger::Manual), CancellationToken::new()).await.unwrap_err()
}

#[tokio::test]
async fn a_deleted_or_replaced_store_ends_the_pass_before_any_stop() {
    for replaced in [false, true] {
        let (world, runner, _) = with_an_idle_session().await;
        let path = world.store().name().to_owned();
        let kept = format!("{path}.moved");
        std::fs::rename(&path, &kept).unwrap();
        if replaced {
            std::fs::copy(&kept, &path).unwrap();
        }

        let error = failed(&world).await;

        assert!(matches!(&error, StoreError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains("moved or replaced"), "{error}");
        assert!(runner.calls_of(Verb::End).is_empty());

        std::fs::rename(&kept, &path).unwrap();
        world.sweep().await;
        assert_eq!(runner.calls_of(Verb::End).len(), 1, "in its place again");
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_written_ends_the_pass_before_any_stop() {
    let (world, runner, idle) = with_an_idle_session().await;
    let mut other = SqliteConnection::connect(&format!("sqlite://{}", world.store().name())).await.unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON settings BEGIN SELECT RAISE(ROLLBACK, 'disk is full'); END";
    sqlx::query(refuse).execute(&mut other).await.unwrap();

    let error = failed(&world).await;

    assert!(error.to_string().contains("disk is full"), "{error}");
    assert!(runner.calls_of(Verb::End).is_empty());
    assert!(world.read(&idle).await.is_open());

    sqlx::query("DROP TRIGGER refuse").execute(&mut other).await.unwrap();
    world.sweep().await;
    assert_eq!(runner.calls_of(Verb::End).len(), 1, "once there is room again");
}
