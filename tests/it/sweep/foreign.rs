//! A runner that someone else wrote is served as far as it can be, and never on a doubt.

use sexton::entry::EntryKind;
use sexton::report::PartName;
use sexton::time::{HOUR, MINUTE};
use sexton::verdict::Verdict;

use crate::support::fake_runner::{Answering, Raw, Verb, When};
use crate::support::world::{World, kept, silent};

const WINDOW: i64 = 6 * HOUR;

#[tokio::test]
async fn a_bare_runner_is_fully_served() {
    for (name, answer) in [("200", None), ("204", Some(Raw::bare(204))), ("404", Some(Raw::bare(404)))] {
        let world = World::new().await;
        let runner = world.foreign_runner().await;
        let idle = world.session("idle", WINDOW, |_| ()).await;
        let young = world.held(&runner, "young", WINDOW - 1).await;
        let orphan = world.session("orphan", HOUR, |_| ()).await;
        if name != "404" {
            runner.hold_engine(&idle.id, 1, silent(0));
        }
        if let Some(raw) = answer {
            runner.answer(Verb::End, None, Answering::DoThen(Box::new(Answering::Raw(raw))));
        }
        let report = world.sweep().await;

        let reason = if name == "404" { "orphaned" } else { "idle" };
        assert_eq!(world.read(&idle).await.end_reason.as_deref(), Some(reason), "{name}: {report:?}");
        assert_eq!(world.entries(&idle, EntryKind::Ended).await.len(), 1, "{name}");
        assert!(world.read(&young).await.is_open(), "{name}");
        assert_eq!(world.read(&orphan).await.end_reason.as_deref(), Some("orphaned"), "{name}");
        let ends = runner.calls_of(Verb::End);
        assert_eq!(ends.len(), 1, "{name}");
        assert_eq!(ends[0].body, serde_json::json!({"session_id": "idle"}), "{name}: its id is all it is sent");
        assert!(runner.calls_of(Verb::Forget).is_empty(), "{name}");
        let verbs: Vec<Verb> = runner.calls().iter().map(|call| call.verb).collect();
        assert_eq!(verbs, [Verb::Sessions, Verb::Sessions, Verb::End], "{name}: read again right before the stop");
    }
}

#[tokio::test]
async fn an_unrecognised_set_does_not_hold_up_its_idle_sessions() {
    for raw in [Raw::json(200, r#"{"tracked":null}"#), Raw::bare(500), Raw::json(200, "<html>"), Raw::bare(404)] {
        let world = World::new().await;
        let runner = world.foreign_runner().await;
        let idle = world.held(&runner, "idle", WINDOW).await;
        let orphan = world.session("orphan", HOUR, |_| ()).await;
        runner.answer(Verb::Sessions, None, Answering::Raw(raw.clone()));
        let report = world.sweep().await;
        assert_eq!(world.read(&idle).await.end_reason.as_deref(), Some("idle"), "{raw:?}: {report:?}");
        assert!(world.read(&orphan).await.is_open(), "{raw:?}");
        assert_eq!(kept(report.part(PartName::Orphans), Verdict::TrackedUnrecognised), 1);
    }
}

#[tokio::test]
async fn without_a_recognised_set_a_bare_404_says_nothing() {
    let world = World::new().await;
    let runner = world.foreign_runner().await;
    let idle = world.session("idle", WINDOW, |_| ()).await;
    runner.answer(Verb::Sessions, None, Answering::Raw(Raw::json(200, "null")));
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Idle), Verdict::StopFailed), 1, "{report:?}");
    assert!(world.read(&idle).await.is_open());
}

#[tokio::test]
async fn a_busy_state_read_right_before_the_stop_keeps_the_session() {
    let world = World::new().await;
    let runner = world.foreign_runner().await;
    let idle = world.held(&runner, "idle", WINDOW).await;
    let quiet = Raw::json(200, r#"{"tracked":["idle"]}"#);
    let busy = Raw::json(200, r#"{"tracked":[{"session_id":"idle","generating":true}]}"#);
    runner.answer_once(Verb::Sessions, None, Answering::Raw(quiet));
    runner.answer(Verb::Sessions, None, Answering::Raw(busy));
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Idle), Verdict::Generating), 1, "{report:?}");
    assert!(runner.calls_of(Verb::End).is_empty() && world.read(&idle).await.is_open());
}

#[tokio::test]
async fn a_worker_that_stood_still_asks_a_foreign_runner_for_nothing() {
    let world = World::new().await;
    let runner = world.foreign_runner().await;
    let idle = world.held(&runner, "idle", WINDOW).await;
    let clock = world.clock.clone();
    // Frozen while the answer is under way: what it says is old by the time it is read.
    runner.hook(Verb::Sessions, When::Decided, move |_| {
        clock.advance(MINUTE);
        std::future::ready(())
    });
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Idle), Verdict::Undetermined), 1, "{report:?}");
    assert!(runner.script().stops.is_empty() && world.read(&idle).await.is_open());
    runner.unhook();
    assert_eq!(world.sweep().await.part(PartName::Idle).reaped, 1);
}

#[tokio::test]
async fn a_silent_foreign_runner_is_soon_left_alone() {
    let world = World::new().await;
    let runner = world.foreign_runner().await;
    for number in 0..12 {
        world.held(&runner, &format!("s-{number}"), WINDOW).await;
    }
    // It answers the first question of the pass and then no more.
    runner.answer_once(Verb::Sessions, None, Answering::Truly);
    runner.answer(Verb::Sessions, None, Answering::Reset);
    let report = world.sweep().await;
    assert!(runner.calls_of(Verb::Sessions).len() <= 5, "{}", runner.calls_of(Verb::Sessions).len());
    assert!(report.part(PartName::Idle).reaped < 12);
}

#[tokio::test]
async fn a_runner_that_speaks_the_protocol_at_last_is_held_to_it() {
    let world = World::new().await;
    let runner = world.foreign_runner().await;
    world.sweep().await;
    runner.script().foreign = false;
    world.sweep().await;
    runner.script().foreign = true;
    let idle = world.held(&runner, "idle", WINDOW).await;
    let report = world.sweep().await;
    assert_eq!(kept(report.part(PartName::Idle), Verdict::TrackedUnrecognised), 1, "{report:?}");
    assert!(runner.calls_of(Verb::End).is_empty() && world.read(&idle).await.is_open());
}
