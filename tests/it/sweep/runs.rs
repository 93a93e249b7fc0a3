//! Runs that stopped sending heartbeats are marked; their session stays.

use sexton::entry::EntryKind;
use sexton::report::PartName;
use sexton::session::{Run, RunStatus};
use sexton::time::{MINUTE, Ms};
use sexton::timeline;
use sexton::verbs::person;

use crate::support::rows::begin_run;
use crate::support::world::{World, id};

const LIMIT: Ms = 15 * MINUTE;

async fn run(world: &World, name: &str, started: Ms, heartbeat: Option<Ms>) -> Run {
    let run = Run {
        id: id(name),
        session_id: id("s"),
        status: RunStatus::Running,
        opened_session: true,
        started_at: world.now().minus(started),
        heartbeat_at: heartbeat.map(|ago| world.now().minus(ago)),
        finished_at: None,
        stale_at: None,
        result: None,
    };
    begin_run(world.store(), &run).await;
    run
}

#[tokio::test]
async fn a_run_is_stale_at_exactly_its_limit_and_its_session_stays() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", 0).await;
    let mut runs = Vec::new();
    for (name, started, heartbeat, stale) in [
        ("fresh", 2 * LIMIT, Some(LIMIT - 1), false),
        ("silent", 2 * LIMIT, Some(LIMIT), true),
        ("never-beat", LIMIT, None, true),
        ("young", LIMIT - 1, None, false),
    ] {
        runs.push((run(&world, name, started, heartbeat).await, stale));
    }
    let report = world.sweep().await;
    assert_eq!(report.part(PartName::Runs).reaped, 2, "{report:?}");
    for (run, stale) in &runs {
        let status = world.store().find_run(&run.session_id, &run.id).await.unwrap().unwrap().status;
        assert_eq!(status == RunStatus::Stale, *stale, "{}", run.id);
    }
    assert!(world.read(&session).await.is_open());
    assert_eq!(world.sweep().await.part(PartName::Runs).examined, 0);
    let entries = world.entries(&session, EntryKind::RunStale).await;
    assert_eq!(entries.len(), 2, "one each");
    assert!(entries.iter().all(|entry| entry.message.contains("stays open")), "{entries:?}");
}

#[tokio::test]
async fn a_run_that_finished_is_left_as_it_is() {
    let world = World::new().await;
    world.runner().await;
    let session = world.session("s", 0, |_| ()).await;
    let run = run(&world, "done", 2 * LIMIT, None).await;
    let entry =
        timeline::run_finished((&session, &run), RunStatus::Failed, None, &person(&world.tools, "me"), world.now());
    assert!(world.store().finish_run(&run, (RunStatus::Failed, None), world.now(), &entry).await.unwrap());
    assert_eq!(world.sweep().await.part(PartName::Runs).examined, 0);
    assert_eq!(world.store().find_run(&run.session_id, &run.id).await.unwrap().unwrap().status, RunStatus::Failed);
}
