//! A process that ended without saying so makes sessions look younger, once, and never older.

use sexton::report::PartName;
use sexton::time::{HOUR, MINUTE, SECOND};

use crate::support::world::{World, id};

#[tokio::test]
async fn rows_written_since_the_last_sign_of_life_move_forward_once() {
    let world = World::new().await;
    world.runner().await;
    // The worker gave its last sign half a minute ago.
    let sign = world.now().minus(30 * SECOND);
    world.store().beat(&id("worker-0"), sign).await.unwrap();
    let mut rows = Vec::new();
    for (name, age, moves) in [
        ("just-now", 0, 0),
        ("ten-seconds", 10 * SECOND, 10 * SECOND),
        ("at-the-sign", 30 * SECOND, 30 * SECOND),
        ("a-throttle-before", 90 * SECOND, MINUTE),
        ("long-ago", HOUR, 0),
    ] {
        rows.push((world.session(name, age, |_| ()).await, moves));
    }
    world.dry_run().await;
    world.sweep().await;
    for (row, moves) in &rows {
        let expected = row.last_activity_at.map(|at| at.plus(*moves));
        assert_eq!(world.read(row).await.last_activity_at, expected, "{}", row.id);
    }
    world.sweep().await;
    let moved = world.read(&rows[3].0).await.last_activity_at;
    assert_eq!(moved, rows[3].0.last_activity_at.map(|at| at.plus(MINUTE)), "once");
}

#[tokio::test]
async fn a_worker_that_lives_or_left_properly_moves_nothing() {
    for left in [true, false] {
        let world = World::new().await;
        world.runner().await;
        let worker = id("worker-0");
        world.store().beat(&worker, world.now().minus(if left { HOUR } else { 30 * SECOND - 1 })).await.unwrap();
        if left {
            world.store().retire(&worker).await.unwrap();
        }
        let session = world.session("s", MINUTE, |_| ()).await;
        let report = world.sweep().await;
        assert_eq!(report.part(PartName::Idle).examined, 0);
        assert_eq!(world.read(&session).await.last_activity_at, session.last_activity_at);
    }
}
