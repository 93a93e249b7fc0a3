//! Orphans: which rows a believed set closes, and that no engine is called for them.

use sexton::entry::EntryKind;
use sexton::report::PartName;
use sexton::session::{Session, Status};
use sexton::time::{HOUR, MINUTE};
use sexton::verdict::Verdict;

use crate::support::fake_runner::{Verb, When};
use crate::support::rows::{begin, keep};
use crate::support::world::{World, kept, silent};

const GRACE: i64 = 3 * MINUTE;
const QUIET: i64 = 5 * MINUTE;

/// Puts in a row whose engine was started so long ago and that was used so long ago.
async fn row(world: &World, attached: i64, quiet: i64) -> Session {
    let (attached_at, used_at) = (world.now().minus(attached), world.now().minus(quiet));
    world
        .session(&format!("a{attached}-q{quiet}"), quiet, |row| {
            (row.attached_at, row.started_at) = (Some(attached_at), Some(attached_at));
            row.last_activity_at = Some(used_at);
        })
        .await
}

#[tokio::test]
async fn an_empty_set_closes_exactly_the_rows_past_both_limits() {
    let world = World::new().await;
    let runner = world.runner().await;
    let mut expected = Vec::new();
    for attached in [GRACE - 1, GRACE, GRACE + 1] {
        for quiet in [QUIET - 1, QUIET, QUIET + 1] {
            expected.push((row(&world, attached, quiet).await, attached >= GRACE && quiet >= QUIET));
        }
    }
    let report = world.sweep().await;

    let orphans = report.part(PartName::Orphans);
    assert_eq!((orphans.examined, orphans.reaped), (9, 4), "{orphans:?}");
    assert_eq!((kept(orphans, Verdict::NewSession), kept(orphans, Verdict::NotQuiet)), (3, 2), "{orphans:?}");
    for (session, closed) in expected {
        assert_eq!(!world.read(&session).await.is_open(), closed, "{}", session.id);
        assert_eq!(world.entries(&session, EntryKind::Ended).await.len(), usize::from(closed));
    }
    assert!(runner.calls_of(Verb::End).is_empty(), "there is no engine to call");
    assert!(runner.calls_of(Verb::Forget).is_empty());
}

#[tokio::test]
async fn a_busy_session_on_the_same_runner_delays_none() {
    let world = World::new().await;
    let runner = world.runner().await;
    let busy = world.held(&runner, "busy", 0).await;
    let orphan = row(&world, HOUR, QUIET).await;
    let report = world.sweep().await;
    let orphans = report.part(PartName::Orphans);
    assert_eq!((orphans.examined, orphans.reaped, kept(orphans, Verdict::Tracked)), (2, 1, 1));
    assert!(world.read(&busy).await.is_open());
    assert_eq!(world.read(&orphan).await.end_reason.as_deref(), Some("orphaned"));
}

#[tokio::test]
async fn what_happens_after_the_question_keeps_the_row() {
    for what in ["touch", "claim", "keep", "restart"] {
        let world = World::new().await;
        let runner = world.runner().await;
        let session = row(&world, HOUR, HOUR).await;
        let (store, clock, session_2) = (world.tools.store.clone(), world.clock.clone(), session.clone());
        runner.hook(Verb::Sessions, When::Decided, move |_| {
            let (store, clock, session) = (store.clone(), clock.clone(), session_2.clone());
            async move {
                use sexton::clock::Clock;
                // Less than any limit passes on the worker's clock: only the order tells.
                let now = clock.now();
                match what {
                    "touch" => drop(store.write_touches(&[touch(&session, now)]).await.unwrap()),
                    "claim" => drop(store.claim_driver(&session.id, "anna", now, now).await.unwrap()),
                    "keep" => keep(&store, &session, now.plus(HOUR), now).await,
                    _ => drop(begin(&store, &session, &session.runner_id, now).await),
                }
            }
        });
        world.sweep().await;
        let open = world.read(&session).await.is_open();
        // A claim says that somebody wants to drive an engine which is not there; it is no use of the session.
        assert_eq!(open, what != "claim", "{what}");
    }
}

fn touch(session: &Session, at: sexton::time::UtcMs) -> sexton::store::Touch {
    sexton::store::Touch { id: session.id.clone(), at, kind: sexton::session::ActivityKind::Capture }
}

#[tokio::test]
async fn a_set_that_lists_the_session_under_another_generation_keeps_the_row() {
    let world = World::new().await;
    let runner = world.runner().await;
    for (name, row_generation, engine_generation) in [("older", 2, 1), ("newer", 1, 2)] {
        let session = world.session(name, HOUR, |row| row.generation = row_generation).await;
        runner.hold_engine(&session.id, engine_generation, silent(0));
    }
    let report = world.sweep_only(&[PartName::Orphans]).await;
    let orphans = report.part(PartName::Orphans);
    assert_eq!((orphans.examined, kept(orphans, Verdict::Tracked)), (2, 2));
}

#[tokio::test]
async fn a_row_without_times_or_in_starting_is_no_orphan() {
    let world = World::new().await;
    world.runner().await;
    world
        .session("no-times", HOUR, |row| {
            (row.started_at, row.attached_at, row.updated_at, row.last_activity_at) = (None, None, None, None);
        })
        .await;
    let attached = world.now().minus(MINUTE);
    world
        .session("starting", HOUR, |row| {
            row.status = Status::Starting;
            row.attached_at = Some(attached);
        })
        .await;
    let report = world.sweep_only(&[PartName::Orphans]).await;
    assert_eq!(report.part(PartName::Orphans).reaped, 0);
}
