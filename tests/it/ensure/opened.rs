//! Who opened a session, in every direction but the moves.

use serde_json::json;
use sexton::entry::EntryKind;
use sexton::session::{ActivityKind, Status};
use sexton::store::{SessionFilter, Touch};
use sexton::time::{HOUR, MINUTE};
use sexton::verbs::{self, StartWish, Started, VerbError};
use tokio::task::JoinSet;

use crate::ensure::{REPO, ensure, entries, kinds, wish};
use crate::support::fake_runner::{Answering, Raw, Verb, When};
use crate::support::world::{NOON, World, id};

/// Asks so many times at once, and returns what each got.
async fn at_once(world: &World, count: usize) -> Vec<Result<Started, VerbError>> {
    let mut asking = JoinSet::new();
    for _ in 0..count {
        let tools = world.tools.clone();
        asking.spawn(async move { verbs::start(&tools, &wish(), &verbs::person(&tools, "me")).await });
    }
    asking.join_all().await
}

/// A failed start, whatever session it is of: the answer names none.
fn broken() -> Answering {
    let body = json!({"protocol": 1, "runner_id": "mac-mini", "epoch": 1, "ready": true, "outcome": "start_failed",
        "message": "the engine did not start: the engine left with exit code 127; fake: command not found"});
    Answering::Raw(Raw::json(422, body.to_string()))
}

#[tokio::test]
async fn created_is_opened() {
    let world = World::new().await;
    let runner = world.runner().await;
    let wish = StartWish { args: vec!["--fast".to_owned()], idle_after: Some(2 * HOUR), ..wish() };
    let started = ensure(&world, &wish).await.unwrap();
    assert!(started.opened && started.launched);
    assert_eq!((started.session.status, started.session.idle_after_ms), (Status::Active, Some(2 * HOUR)));
    assert_eq!(runner.calls_of(Verb::Start)[0].body["args"], json!(["--fast"]));
    assert_eq!(world.store().start_args(&started.session.id).await.unwrap(), ["--fast"]);
}

#[tokio::test]
async fn reused_is_not_opened_and_is_a_use_that_the_runner_hears_first() {
    let world = World::new().await;
    let runner = world.runner().await;
    let first = ensure(&world, &wish()).await.unwrap();
    world.clock.advance(HOUR);
    let again = ensure(&world, &wish()).await.unwrap();
    assert_eq!((again.opened, again.launched, &again.session.id), (false, false, &first.session.id));
    assert_eq!((runner.calls_of(Verb::Start).len(), runner.calls_of(Verb::Touch).len()), (1, 1));
    assert_eq!(again.session.last_activity_at, Some(world.now()));
}

#[tokio::test]
async fn who_finds_somebody_elses_start_opens_nothing_and_waits_until_the_session_can_be_used() {
    let world = World::new().await;
    let runner = world.runner().await;
    let gate = runner.hold(Verb::Start, When::Arrived);
    let (first, second) = tokio::join!(async { ensure(&world, &wish()).await.unwrap() }, async {
        gate.reached().await;
        let (second, ()) = tokio::join!(async { ensure(&world, &wish()).await.unwrap() }, async {
            tokio::task::yield_now().await;
            gate.open();
        });
        second
    });
    assert!(first.opened && !second.opened);
    assert_eq!((&second.session.id, second.session.status), (&first.session.id, Status::Active));
    assert_eq!(runner.calls_of(Verb::Start).len(), 1);
}

/// A caller stands between its look, which found nothing open, and its insert, while another one opens the session: what
/// asks the runner of an earlier session in that repo comes between the two.
#[tokio::test]
async fn a_lost_race_for_the_row_is_not_opened_and_gets_the_winners_session() {
    let world = World::new().await;
    let runner = world.runner().await;
    let earlier = world
        .session("earlier", 7 * HOUR, |row| {
            (row.repo, row.engine) = (REPO.to_owned(), "fake".to_owned());
            (row.status, row.end_reason) = (Status::Ended, Some("machine_gone".to_owned()));
            row.ended_at = Some(NOON.minus(HOUR));
        })
        .await;
    let gate = runner.hold(Verb::Touch, When::Arrived);
    let (lost, won) = tokio::join!(async { ensure(&world, &wish()).await.unwrap() }, async {
        gate.reached().await;
        assert!(world.store().find_open_session(Some("me"), REPO).await.unwrap().is_none());
        runner.unhook();
        let won = ensure(&world, &wish()).await.unwrap();
        gate.open();
        won
    });
    assert_eq!((won.opened, lost.opened, lost.launched), (true, false, false));
    assert_eq!((&lost.session.id, lost.session.status), (&won.session.id, Status::Active));
    assert_eq!(runner.calls_of(Verb::Start).len(), 1);
    let touched: Vec<_> = runner.calls_of(Verb::Touch).into_iter().filter_map(|call| call.session_id).collect();
    assert_eq!(
        touched,
        [earlier.id.clone(), earlier.id, won.session.id.clone()],
        "it looked again, and used what is there"
    );
    assert_eq!(kinds(&world, &won.session).await, [EntryKind::Started]);
    let rows = world.store().list_sessions(&SessionFilter::default()).await.unwrap();
    assert_eq!(rows.len(), 2, "the row that lost left nothing");
}

#[tokio::test]
async fn two_hundred_at_once_get_one_session_and_one_opened() {
    let world = World::new().await;
    let runner = world.runner().await;
    let got: Vec<_> = at_once(&world, 200).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(got.iter().filter(|one| one.opened).count(), 1);
    assert!(got.iter().all(|one| one.session.id == got[0].session.id && one.session.status == Status::Active));
    assert_eq!(runner.calls_of(Verb::Start).len(), 1);
    assert_eq!(kinds(&world, &got[0].session).await, [EntryKind::Started]);
}

#[tokio::test]
async fn an_engine_that_never_launched_closes_its_row_with_the_runners_reason() {
    let world = World::new().await;
    let runner = world.runner().await;
    runner.answer(Verb::Start, None, broken());
    let error = ensure(&world, &wish()).await.unwrap_err();
    let why = "exit code 127; fake: command not found";
    assert!(matches!(&error, VerbError::Runner(said) if said.ends_with(why)), "{error}");
    assert!(world.store().find_open_session(Some("me"), REPO).await.unwrap().is_none());
    let call = &runner.calls_of(Verb::Start)[0];
    let row = world.store().find_session(call.session_id.as_ref().unwrap()).await.unwrap().unwrap();
    assert_eq!((row.status, row.end_reason.as_deref()), (Status::Ended, Some("start_failed")));
    let told = entries(&world, &row).await.pop().unwrap();
    assert!(told.kind == EntryKind::Ended && told.message.ends_with(why), "{told:?}");
}

#[tokio::test]
async fn only_a_refusal_that_says_so_closes_a_row_as_not_started() {
    for (status, outcome, certain) in [
        (422, "start_failed", true),
        (400, "unknown_engine", true),
        (409, "in_use", true),
        (400, "bad_request", true),
        (503, "not_ready", true),
        (503, "busy", false),
        (500, "internal", false),
        (409, "unsupported", false),
        (409, "generation", false),
        (503, "a_word_of_another_version", false),
    ] {
        let world = World::new().await;
        let runner = world.runner().await;
        let body = json!({"protocol": 1, "runner_id": "mac-mini", "epoch": 1, "ready": true, "outcome": outcome,
            "message": "so it is"});
        runner.answer(Verb::Start, None, Answering::Raw(Raw::json(status, body.to_string())));
        ensure(&world, &wish()).await.unwrap_err();
        let call = &runner.calls_of(Verb::Start)[0];
        let row = world.store().find_session(call.session_id.as_ref().unwrap()).await.unwrap().unwrap();
        let expected = if certain { (Status::Ended, Some("start_failed")) } else { (Status::Starting, None) };
        assert_eq!((row.status, row.end_reason.as_deref()), expected, "{outcome}");
    }
}

#[tokio::test]
async fn who_waited_for_a_start_that_failed_gets_the_same_reason_and_starts_nothing() {
    let world = World::new().await;
    let runner = world.runner().await;
    runner.answer_once(Verb::Start, None, broken());
    let gate = runner.hold(Verb::Start, When::Decided);
    let (first, second) = tokio::join!(async { ensure(&world, &wish()).await }, async {
        gate.reached().await;
        let (second, ()) = tokio::join!(async { ensure(&world, &wish()).await }, async {
            tokio::task::yield_now().await;
            gate.open();
        });
        second
    });
    let (first, second) = (first.unwrap_err().to_string(), second.unwrap_err().to_string());
    assert_eq!(first, second);
    assert_eq!(runner.calls_of(Verb::Start).len(), 1, "no storm of starts");
}

#[tokio::test]
async fn a_row_that_is_used_while_its_start_fails_is_closed_all_the_same() {
    let world = World::new().await;
    let runner = world.runner().await;
    let gate = runner.hold(Verb::Start, When::Decided);
    runner.answer_once(Verb::Start, None, broken());
    let (failed, ()) = tokio::join!(async { ensure(&world, &wish()).await }, async {
        gate.reached().await;
        let row = world.store().find_open_session(Some("me"), REPO).await.unwrap().unwrap();
        world.clock.advance(MINUTE);
        let touch = Touch { id: row.id, at: world.now(), kind: ActivityKind::Capture };
        world.store().write_touches(&[touch]).await.unwrap();
        gate.open();
    });
    failed.unwrap_err();
    assert!(world.store().find_open_session(Some("me"), REPO).await.unwrap().is_none());
}

#[tokio::test]
async fn an_engine_that_has_ended_closes_its_row_and_a_new_session_is_opened() {
    let world = World::new().await;
    let runner = world.runner().await;
    let first = ensure(&world, &wish()).await.unwrap().session;
    runner.script().end_by_itself(&first.id, "exited", &world.clock);
    let second = ensure(&world, &wish()).await.unwrap();
    assert!(second.opened && second.session.id != first.id);
    assert_eq!(world.read(&first).await.end_reason.as_deref(), Some("exited"));
}

#[tokio::test]
async fn another_engine_beside_an_open_one_is_refused_with_its_id() {
    let world = World::new().await;
    let runner = world.runner().await;
    let first = ensure(&world, &wish()).await.unwrap().session;
    let other = StartWish { engine: "other".to_owned(), ..wish() };
    let refused = ensure(&world, &other).await.unwrap_err();
    assert!(matches!(&refused, VerbError::Conflict(why) if why.contains(first.id.as_str())), "{refused}");
    assert_eq!(world.read(&first).await, first);
    runner.script().end_by_itself(&first.id, "exited", &world.clock);
    assert!(ensure(&world, &other).await.unwrap().opened, "one that has ended is in nobody's way");
}

#[tokio::test]
async fn a_runner_that_knows_a_later_start_has_the_row_jump_above_it_once() {
    let world = World::new().await;
    let runner = world.runner().await;
    let session = ensure(&world, &wish()).await.unwrap().session;
    // As after a restored store: the runner remembers more starts than the row.
    super::lose(&runner, &session);
    runner.script().highest_ended.insert(session.id.clone(), 7);
    let again = ensure(&world, &wish()).await.unwrap();
    assert_eq!((again.opened, again.session.generation, again.session.status), (false, 8, Status::Active));
    assert_eq!(runner.calls_of(Verb::Start).len(), 3);
}

#[tokio::test]
async fn a_start_that_nobody_answers_leaves_the_row_to_the_passes() {
    let world = World::new().await;
    let runner = world.runner().await;
    runner.answer_once(Verb::Start, None, Answering::DoThen(Box::new(Answering::Reset)));
    ensure(&world, &wish()).await.unwrap_err();
    let row = world.store().find_open_session(Some("me"), REPO).await.unwrap().unwrap();
    assert_eq!(row.status, Status::Starting);
    world.clock.advance(2 * MINUTE);
    world.sweep().await;
    assert_eq!(world.read(&row).await.status, Status::Active, "the runner has it");
}

#[tokio::test]
async fn wishes_that_make_no_sense_are_refused_and_write_nothing() {
    let world = World::new().await;
    world.runner().await;
    for bad in [
        StartWish { repo: "app".to_owned(), ..wish() },
        StartWish { force: true, ..wish() },
        StartWish { idle_after: Some(MINUTE), ..wish() },
        StartWish { idle_after: Some(0), ..wish() },
    ] {
        let refused = ensure(&world, &bad).await;
        assert!(matches!(refused, Err(VerbError::Invalid(_))), "{bad:?}");
    }
    let unknown = StartWish { runner: Some(id("nowhere")), ..wish() };
    assert!(matches!(ensure(&world, &unknown).await, Err(VerbError::Runner(_))));
    assert!(world.store().list_sessions(&SessionFilter::default()).await.unwrap().is_empty());
}
