//! A stop that is not confirmed leaves the row open; the next pass finishes it with the original reason.

use serde_json::json;
use sexton::entry::EntryKind;
use sexton::report::PartName;
use sexton::time::HOUR;
use sexton::verdict::Verdict;

use crate::support::fake_runner::{Answering, Raw, Verb};
use crate::support::world::{World, kept};

const WINDOW: i64 = 6 * HOUR;

/// Makes a pass in which the stop is answered like this, checks that it closed nothing, and then one with a runner that
/// behaves: it must close the row as `idle`, once, and tell the runner to forget.
async fn fails_and_is_finished(name: &str, answering: Answering) {
    let mut world = World::new().await;
    world.hurry();
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW).await;
    runner.answer(Verb::End, None, answering);

    let failed = world.sweep().await;

    let idle = failed.part(PartName::Idle);
    assert_eq!((idle.examined, kept(idle, Verdict::StopFailed)), (1, 1), "{name}: {idle:?}");
    assert_eq!((idle.errors.len(), failed.has_errors()), (1, true), "{name}");
    assert!(world.read(&session).await.is_open(), "{name}");
    assert!(world.entries(&session, EntryKind::Ended).await.is_empty(), "{name}");

    let by_the_first_pass = !runner.script().stops.is_empty();
    runner.script().behave();
    let report = world.sweep().await;

    let reaped: u64 = report.parts.values().map(|part| part.reaped).sum();
    assert_eq!(reaped, 1, "{name}: {report:?}");
    let row = world.read(&session).await;
    assert_eq!(row.end_reason.as_deref(), Some("idle"), "{name}");
    let entries = world.entries(&session, EntryKind::Ended).await;
    assert_eq!(entries.len(), 1, "{name}");
    let asked_by = if by_the_first_pass { &failed.sweep_id } else { &report.sweep_id };
    assert_eq!(entries[0].evidence["sweep_id"], json!(asked_by), "{name}: the pass that asked for the stop");
    assert_eq!(runner.script().stops.len(), 1, "{name}: stopped once");
    assert!(runner.script().stops[0].at <= row.ended_at.unwrap(), "{name}");
    assert_eq!(runner.calls_of(Verb::Forget).len(), 1, "{name}");
    assert!(runner.script().ended.is_empty(), "{name}");
    let again = world.sweep().await;
    assert_eq!(again.parts.values().map(|part| part.examined).sum::<u64>(), 0, "{name}: {again:?}");
}

#[tokio::test]
async fn an_answer_that_stopped_nothing() {
    for (name, answering) in [
        ("accepted", Answering::Accept),
        ("reset", Answering::Reset),
        ("cut off", Answering::CutOff),
        ("hang", Answering::Hang),
        ("hang after headers", Answering::HangAfterHeaders),
        ("bare 200", Answering::Raw(Raw::bare(200))),
        ("bare 204", Answering::Raw(Raw::bare(204))),
        ("bare 404", Answering::Raw(Raw::bare(404))),
        ("web page", Answering::Raw(Raw::json(200, "<html>"))),
        ("not ready", Answering::Raw(Raw::bare(503))),
    ] {
        fails_and_is_finished(name, answering).await;
    }
}

#[tokio::test]
async fn an_answer_that_was_lost_or_is_about_something_else() {
    for (name, answering) in [
        ("lost", Answering::DoThen(Box::new(Answering::Reset))),
        ("lost in the middle", Answering::DoThen(Box::new(Answering::CutOff))),
        ("late", Answering::DoThen(Box::new(Answering::Hang))),
        ("500 afterwards", Answering::DoThen(Box::new(Answering::Raw(Raw::bare(500))))),
        ("another session", Answering::Altered(json!({"session_id": "t"}))),
        ("no session", Answering::Altered(json!({"session_id": null}))),
        ("another generation", Answering::Altered(json!({"generation": 2}))),
        ("another runner", Answering::Altered(json!({"runner_id": "other"}))),
        ("an older epoch", Answering::Altered(json!({"epoch": 0}))),
        ("a newer epoch", Answering::Altered(json!({"epoch": 2}))),
        ("no protocol", Answering::Altered(json!({"protocol": null}))),
    ] {
        fails_and_is_finished(name, answering).await;
    }
}

#[tokio::test]
async fn a_runner_may_fail_for_days() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW).await;
    runner.answer(Verb::End, None, Answering::Raw(Raw::bare(500)));
    for _ in 0..72 {
        world.sweep().await;
        world.clock.advance(HOUR);
    }
    assert!(world.read(&session).await.is_open());
    assert!(runner.calls_of(Verb::End).len() >= 70, "it is asked again and again");
    runner.script().behave();
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
}

#[tokio::test]
async fn an_engine_that_left_by_itself_is_closed_with_its_own_reason() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = world.held(&runner, "s", WINDOW).await;
    let (script, clock, id) = (&runner, world.clock.clone(), session.id.clone());
    script.script().end_by_itself(&id, "exited", &clock);
    let report = world.sweep().await;
    assert_eq!((report.part(PartName::Observe).reaped, report.part(PartName::Idle).examined), (1, 0));
    assert_eq!(world.read(&session).await.end_reason.as_deref(), Some("exited"));
    assert!(runner.calls_of(Verb::End).is_empty());
}
