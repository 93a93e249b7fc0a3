//! Answers that are no tracked set close nothing; only a recognised one does, the empty one included.

use std::fs;

use serde_json::json;
use sexton::report::{PartName, RunnerState, SweepReport};
use sexton::session::Session;
use sexton::store::RunnerMemory;
use sexton::time::HOUR;
use sexton::verdict::Verdict;

use crate::support::fake_runner::{Answering, FakeRunner, Raw, Verb};
use crate::support::world::{World, id, kept};
use crate::tracked_fixtures::{Head, replies};

/// Rows that a believed empty set would close: two orphans, and one that would be asked for as idle.
async fn rows(world: &World) -> Vec<Session> {
    let mut rows = Vec::new();
    for (name, idle) in [("orphan-1", HOUR), ("orphan-2", 2 * HOUR), ("idle", 7 * HOUR)] {
        rows.push(world.session(name, idle, |_| ()).await);
    }
    rows
}

async fn assert_all_open(world: &World, rows: &[Session], name: &str) {
    for row in rows {
        assert!(world.read(row).await.is_open(), "{name}: {}", row.id);
    }
}

/// Forgets what the runner showed, and remembers what the stored replies were asked with.
async fn remember(world: &World, head: &Head) {
    let runner = id("mac-mini");
    world.store().reset_runner(&runner).await.unwrap();
    let memory = RunnerMemory {
        identity: head.expected.runner_id.clone(),
        state_id: head.expected.state_id.clone(),
        epoch: head.expected.epoch,
        protocol: head.expected.speaks_protocol.then_some(1),
    };
    world.store().remember_runner(&runner, memory, world.now()).await.unwrap();
}

fn raw(head: &Head, body: Vec<u8>) -> Raw {
    let mut raw = Raw { status: head.status, headers: Vec::new(), body };
    let headers =
        [("content-type", &head.content_type), ("content-encoding", &head.content_encoding), ("age", &head.age)];
    for (name, value) in headers {
        if let Some(value) = value {
            raw = raw.with(name, value.clone());
        }
    }
    raw
}

/// A foreign runner whose set cannot be read is still asked to stop; these replies come from one that answers nothing else.
fn answers_nothing_else(runner: &FakeRunner) {
    runner.answer(Verb::End, None, Answering::Raw(Raw::bare(500)));
}

#[tokio::test]
async fn no_bad_reply_closes_a_row_in_a_whole_pass() {
    let world = World::new().await;
    let runner = world.runner().await;
    answers_nothing_else(&runner);
    let rows = rows(&world).await;
    let mut bad = 0;
    for (name, path) in replies().into_iter().filter(|(name, _)| !name.starts_with("tracked")) {
        let head = Head::of(&path);
        remember(&world, &head).await;
        runner.answer(Verb::Sessions, None, Answering::Raw(raw(&head, fs::read(&path).unwrap())));

        let report = world.sweep().await;

        let expected = match (name.split('-').next(), head.status) {
            (_, 401 | 403) => RunnerState::Unauthorised,
            (Some("unknown"), _) => RunnerState::Unknown,
            _ => RunnerState::Unrecognised,
        };
        assert_eq!(report.runners[0].state, expected, "{name}: {:?}", report.runners);
        assert!(report.runners[0].why.as_ref().is_some_and(|why| why.len() > 10), "{name}");
        assert_eq!(report.parts.values().map(|part| part.reaped).sum::<u64>(), 0, "{name}");
        let orphans = report.part(PartName::Orphans);
        assert_eq!(orphans.examined, rows.len() as u64, "{name}: {orphans:?}");
        bad += 1;
        world.look_again().await;
    }
    assert_all_open(&world, &rows, "any").await;
    assert!(bad >= 60, "{bad}");
}

#[tokio::test]
async fn every_good_empty_reply_reconciles() {
    let mut good = 0;
    for (name, path) in replies().into_iter().filter(|(name, _)| name.starts_with("tracked")) {
        let body = fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&body).replace(char::is_whitespace, "");
        if !text.contains("\"tracked\":[]") {
            continue;
        }
        let world = World::new().await;
        let runner = world.runner().await;
        let head = Head::of(&path);
        remember(&world, &head).await;
        runner.answer(Verb::Sessions, None, Answering::Raw(raw(&head, body)));
        let orphan = world.session("orphan", HOUR, |_| ()).await;
        assert_eq!(world.sweep().await.part(PartName::Orphans).reaped, 1, "{name}");
        assert_eq!(world.read(&orphan).await.end_reason.as_deref(), Some("orphaned"), "{name}");
        assert!(runner.calls_of(Verb::End).is_empty(), "{name}");
        good += 1;
    }
    assert!(good >= 5, "{good}");
}

/// Sweeps once with such an answer, and returns the report after checking that nothing was closed.
async fn sweep_with(name: &str, answering: Answering) -> SweepReport {
    let world = World::new().await;
    let runner = world.runner().await;
    let rows = rows(&world).await;
    // It has spoken the protocol before, so nothing less is believed.
    world
        .store()
        .remember_runner(&id("mac-mini"), RunnerMemory { protocol: Some(1), ..memory() }, world.now())
        .await
        .unwrap();
    runner.answer(Verb::Sessions, None, answering);
    let report = world.sweep().await;
    assert_all_open(&world, &rows, name).await;
    assert!(runner.calls_of(Verb::End).is_empty(), "{name}: it did not answer as a runner that may be asked");
    report
}

fn memory() -> RunnerMemory {
    RunnerMemory { identity: Some("mac-mini".to_owned()), state_id: None, epoch: Some(1), protocol: None }
}

#[tokio::test]
async fn the_report_names_each_runner_with_its_state_and_why() {
    use RunnerState::{Offline, Unauthorised, Unknown, Unrecognised};
    let json = |text: &str| Answering::Raw(Raw::json(200, text));
    for (name, answering, state, says) in [
        ("null", json(r#"{"tracked":null}"#), Unrecognised, "spoken"),
        ("{}", json("{}"), Unrecognised, "spoken"),
        ("text", json("none"), Unrecognised, ""),
        ("bare empty of a speaker", json(r#"{"tracked":[]}"#), Unrecognised, ""),
        ("web page", Answering::Raw(Raw::bare(200).with("content-type", "text/html")), Unrecognised, ""),
        ("500", Answering::Raw(Raw::bare(500)), Unrecognised, "500"),
        ("401", Answering::Raw(Raw::bare(401)), Unauthorised, "401"),
        ("403", Answering::Raw(Raw::bare(403)), Unauthorised, "403"),
        ("redirect", Answering::Raw(Raw::bare(302).with("location", "/")), Unrecognised, "302"),
        ("cut off", Answering::CutOff, Unrecognised, "cut off"),
        ("endless", Answering::Endless, Unrecognised, "larger"),
        ("hang", Answering::Hang, Offline, "in time"),
        ("hang after headers", Answering::HangAfterHeaders, Offline, "in time"),
        ("reset", Answering::Reset, Offline, "no answer"),
        ("incomplete", Answering::Altered(json!({"complete": false})), Unrecognised, "complete"),
        ("not ready", Answering::Altered(json!({"ready": false})), Unrecognised, "ready"),
        ("another runner", Answering::Altered(json!({"runner_id": "other"})), Unknown, "other"),
        ("older epoch", Answering::Altered(json!({"epoch": 0})), Unknown, ""),
        ("another ask", Answering::Altered(json!({"ask": "earlier"})), Unrecognised, "ask"),
        ("more pages", Answering::Altered(json!({"next_page": "2"})), Unrecognised, "next_page"),
        ("error", Answering::Altered(json!({"error": "database"})), Unrecognised, "error"),
    ] {
        let report = sweep_with(name, answering).await;
        let runner = &report.runners[0];
        assert_eq!(runner.state, state, "{name}: {runner:?}");
        assert!(runner.why.as_ref().is_some_and(|why| why.contains(says)), "{name}: {runner:?}");
        let word = match state {
            Unknown => Verdict::RunnerUnknown,
            Offline => Verdict::RunnerOffline,
            RunnerState::Live | Unrecognised | Unauthorised => Verdict::TrackedUnrecognised,
        };
        assert_eq!(kept(report.part(PartName::Orphans), word), 3, "{name}");
        assert_eq!(kept(report.part(PartName::Idle), word), 1, "{name}");
    }
}

#[tokio::test]
async fn a_bad_set_of_one_runner_says_nothing_about_another() {
    let world = World::new().await;
    let bad = world.runner().await;
    let good = FakeRunner::with_clock(std::sync::Arc::new(world.clock.clone())).await;
    good.script().runner_id = id("tower");
    world.enrol(&good, "tower").await;
    bad.answer(Verb::Sessions, None, Answering::Raw(Raw::json(200, "null")));
    let kept_row = world.session("kept", HOUR, |_| ()).await;
    let orphan = world.session("orphan", HOUR, |row| row.runner_id = id("tower")).await;

    let report = world.sweep().await;

    assert!(world.read(&kept_row).await.is_open());
    assert_eq!(world.read(&orphan).await.end_reason.as_deref(), Some("orphaned"));
    assert_eq!(report.part(PartName::Orphans).reaped, 1);
}

/// A runner on a new state folder at the same epoch holds nothing that it knows of; its engines may live on.
#[tokio::test]
async fn an_empty_set_from_another_state_folder_closes_nothing_until_a_reset() {
    let world = World::new().await;
    let runner = world.runner().await;
    runner.script().state_id = Some("first".to_owned());
    let living = world.held(&runner, "living", HOUR).await;
    let idle = world.session("idle", 7 * HOUR, |row| row.runner_id = id("mac-mini")).await;
    runner.hold_engine(&idle.id, idle.generation, crate::support::world::silent(HOUR));
    assert_eq!(world.sweep().await.runners[0].state, RunnerState::Live);
    let epoch = runner.script().epoch;

    runner.script().state_id = Some("second".to_owned());
    runner.script().engines.clear();
    for _ in 0..2 {
        let report = world.sweep().await;
        assert_eq!(report.runners[0].state, RunnerState::Unknown, "{:?}", report.runners);
        assert!(report.runners[0].why.as_ref().is_some_and(|why| why.contains("sexton runners reset")));
        assert_eq!(kept(report.part(PartName::Orphans), Verdict::RunnerUnknown), 2);
        assert_all_open(&world, &[living.clone(), idle.clone()], "another folder").await;
        world.look_again().await;
    }
    assert_eq!((runner.script().epoch, runner.calls_of(Verb::End).len()), (epoch, 0));

    assert!(world.store().reset_runner(&id("mac-mini")).await.unwrap());
    let report = world.sweep().await;
    assert_eq!(report.runners[0].state, RunnerState::Live, "{:?}", report.runners);
    assert_eq!(world.read(&living).await.end_reason.as_deref(), Some("orphaned"));
}

/// Silence about the state folder is no other folder.
#[tokio::test]
async fn a_runner_that_no_longer_tells_its_state_folder_is_believed() {
    let world = World::new().await;
    let runner = world.runner().await;
    runner.script().state_id = Some("first".to_owned());
    let living = world.held(&runner, "living", HOUR).await;
    assert_eq!(world.sweep().await.runners[0].state, RunnerState::Live);
    runner.script().state_id = None;
    assert_eq!(world.sweep().await.runners[0].state, RunnerState::Live);
    assert!(world.read(&living).await.is_open());
}
