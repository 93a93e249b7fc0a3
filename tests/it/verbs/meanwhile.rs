//! What a verb finds gone that was there when it began.

use sexton::session::{Run, RunStatus};
use sexton::time::HOUR;
use sexton::verbs::{self, VerbError};

use crate::support::fake_runner::{Verb, When};
use crate::support::world::{World, id};

#[tokio::test]
async fn a_session_that_ends_while_it_is_to_be_kept_has_ended_and_why() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", HOUR).await;
    let actor = verbs::person(&world.tools, "me");
    let gate = runner.hold(Verb::Touch, When::Decided);
    let (kept, ()) = tokio::join!(verbs::keep(&world.tools, &session.id, HOUR, "a demo", &actor), async {
        gate.reached().await;
        runner.script().end_by_itself(&session.id, "exited", &world.clock);
        verbs::close_if_ended(&world.tools, &session).await.unwrap();
        gate.open();
    });
    assert!(matches!(&kept, Err(VerbError::Ended { reason, .. }) if reason == "exited"), "{kept:?}");
}

#[tokio::test]
async fn a_run_that_is_lost_is_called_a_run() {
    let world = World::new().await;
    let session = world.session("s", HOUR, |_| ()).await;
    let run = Run {
        id: id("fix-42"),
        session_id: session.id,
        status: RunStatus::Running,
        opened_session: false,
        started_at: world.now(),
        heartbeat_at: None,
        finished_at: None,
        stale_at: None,
        result: None,
    };
    let lost = verbs::beat_run(&world.tools, &run).await.unwrap_err();
    assert_eq!(lost.to_string(), "there is no run fix-42");
}
