//! Rows that never left `starting`.

use sexton::report::PartName;
use sexton::session::{Session, Status};
use sexton::time::{HOUR, MINUTE};
use sexton::verdict::Verdict;

use crate::support::world::{World, kept, silent};

const LIMIT: i64 = 2 * MINUTE;

async fn starting(world: &World, name: &str, age: i64) -> Session {
    let at = Some(world.now().minus(age));
    world
        .session(name, age, |row| {
            row.status = Status::Starting;
            (row.started_at, row.attached_at, row.updated_at) = (at, at, at);
        })
        .await
}

#[tokio::test]
async fn a_start_that_is_overdue_is_settled_by_what_the_runner_holds() {
    let world = World::new().await;
    let runner = world.runner().await;
    let early = starting(&world, "early", LIMIT - 1).await;
    let absent = starting(&world, "absent", LIMIT).await;
    let there = starting(&world, "there", LIMIT).await;
    let other = starting(&world, "other", LIMIT).await;
    runner.hold_engine(&there.id, 1, silent(0));
    runner.hold_engine(&other.id, 2, silent(0));

    let report = world.sweep().await;

    let observe = report.part(PartName::Observe);
    assert_eq!((observe.examined, observe.reaped), (3, 1), "{observe:?}");
    assert_eq!((kept(observe, Verdict::Tracked), kept(observe, Verdict::Undetermined)), (1, 1), "{observe:?}");
    assert_eq!(world.read(&early).await.status, Status::Starting);
    assert_eq!(world.read(&absent).await.end_reason.as_deref(), Some("start_failed"));
    assert_eq!(world.read(&there).await.status, Status::Active);
    assert_eq!(world.read(&other).await.status, Status::Starting);
    assert!(runner.script().stops.is_empty());
}

#[tokio::test]
async fn a_runner_that_did_not_answer_settles_nothing() {
    for state in ["gone", "recovering", "foreign garbage"] {
        let world = World::new().await;
        let mut runner = world.runner().await;
        let session = starting(&world, "s", 3 * HOUR).await;
        match state {
            "gone" => runner.die().await,
            "recovering" => runner.script().ready = false,
            _ => runner.script().complete = false,
        }
        let report = world.sweep().await;
        assert_eq!(kept(report.part(PartName::Observe), Verdict::Undetermined), 1, "{state}");
        assert_eq!(world.read(&session).await.status, Status::Starting, "{state}");
    }
}

#[tokio::test]
async fn a_start_that_ends_while_the_runner_is_asked_is_not_closed() {
    use crate::support::fake_runner::{Verb, When};
    let world = World::new().await;
    let runner = world.runner().await;
    let session = starting(&world, "s", LIMIT).await;
    let store = world.tools.store.clone();
    let (id, now) = (session.id.clone(), world.now());
    runner.hook(Verb::Sessions, When::Decided, move |_| {
        let (store, id) = (store.clone(), id.clone());
        async move {
            store.mark_active(&id, 1, now).await.unwrap();
        }
    });
    world.sweep().await;
    assert_eq!(world.read(&session).await.status, Status::Active);
}
