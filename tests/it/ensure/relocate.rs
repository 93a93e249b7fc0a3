//! A session that is asked for on another runner, whose old runner answers.

use serde_json::json;
use sexton::entry::EntryKind;
use sexton::protocol::{Because, EngineState, Told};
use sexton::session::{Session, Status};
use sexton::time::{HOUR, MINUTE, Ms, SECOND};
use sexton::verbs::{StartWish, VerbError};

use crate::ensure::{
    CONVERSATION, busy, ensure, entries, kinds, lose, opened, second_runner, start_failed, wish, wish_there,
};
use crate::support::fake_runner::{Answering, FakeRunner, Raw, Verb, When};
use crate::support::world::{World, id, silent};

const DAY: Ms = 24 * HOUR;

async fn stage() -> (World, FakeRunner, FakeRunner, Session) {
    let world = World::new().await;
    let (old, new) = (world.runner().await, second_runner(&world).await);
    let session = opened(&world, &old).await;
    (world, old, new, session)
}

/// Checks that nothing was stopped, moved or started.
async fn stays(world: &World, (old, new): (&FakeRunner, &FakeRunner), session: &Session) {
    let row = world.read(session).await;
    assert_eq!((row.status, &row.runner_id, row.generation), (Status::Active, &id("mac-mini"), 1));
    assert!(old.script().stops.is_empty() && old.script().engines.contains_key(&session.id));
    assert!(new.calls_of(Verb::Start).is_empty());
    assert_eq!(kinds(world, session).await, [EntryKind::Started]);
}

#[tokio::test]
async fn an_idle_one_is_stopped_there_and_started_here_and_not_opened() {
    let (world, old, new, session) = stage().await;
    let moved = ensure(&world, &wish_there()).await.unwrap();
    assert_eq!((moved.opened, moved.launched, &moved.session.id), (false, true, &session.id));
    assert_eq!((moved.session.status, &moved.session.runner_id), (Status::Active, &id("pc")));
    assert_eq!((moved.session.generation, old.script().stops.len()), (2, 1));
    let start = new.calls_of(Verb::Start).pop().unwrap();
    let told = (&start.body["generation"], &start.body["engine_session_id"], &start.body["args"]);
    assert_eq!(told, (&json!(2), &json!(CONVERSATION), &json!(["--fast"])));

    assert_eq!(
        kinds(&world, &session).await,
        [EntryKind::Started, EntryKind::Relocated, EntryKind::Stopped],
        "the row never ended"
    );
    let moving = entries(&world, &session).await.remove(1);
    assert!(moving.message.starts_with("Moved from runner mac-mini to runner pc: its engine on mac-mini was stopped"));
    assert_eq!((&moving.evidence["from"], &moving.evidence["to"]), (&json!("mac-mini"), &json!("pc")));
    assert!(old.script().ended.is_empty(), "its end is told, so it may be forgotten");
    world.sweep().await;
    assert_eq!(world.read(&session).await.status, Status::Active);
    assert_eq!(kinds(&world, &session).await.len(), 3, "one entry says that the old engine is gone");
}

#[tokio::test]
async fn one_that_was_used_a_moment_ago_stays_and_so_does_one_without_a_conversation() {
    let (world, old, new, session) = stage().await;
    let state = |idle_ms| EngineState { generating: Told::Is(false), ..silent(idle_ms) };
    old.hold_engine(&session.id, 1, state(5 * SECOND - 1));
    let refused = ensure(&world, &wish_there()).await.unwrap_err();
    assert!(matches!(&refused, VerbError::Conflict(why) if why.contains("last used")), "{refused}");
    stays(&world, (&old, &new), &session).await;

    let plain = world.session("plain", HOUR, |row| row.engine = wish().engine).await;
    old.hold_engine(&plain.id, 1, silent(HOUR));
    let there = StartWish { repo: plain.repo.clone(), ..wish_there() };
    let refused = ensure(&world, &there).await.unwrap_err();
    assert!(matches!(&refused, VerbError::Conflict(why) if why.contains("no id of its conversation")), "{refused}");
    assert!(old.script().stops.is_empty() && new.calls_of(Verb::Start).is_empty());

    // It says the id of a conversation that somebody else's session has, with which it could not go on.
    let others = |row: &mut Session| {
        (row.owner_id, row.engine_session_id) = (Some("bob".to_owned()), Some("theirs".to_owned()));
    };
    world.session("theirs", HOUR, others).await;
    old.script().engines.get_mut(&plain.id).unwrap().conversation = Some("theirs".to_owned());
    let refused = ensure(&world, &there).await.unwrap_err();
    assert!(matches!(&refused, VerbError::Conflict(why) if why.contains("no id of its conversation")), "{refused}");
    assert!(old.script().stops.is_empty() && new.calls_of(Verb::Start).is_empty());
}

#[tokio::test]
async fn what_its_engine_called_the_conversation_since_the_last_pass_goes_along() {
    let (world, old, new, session) = stage().await;
    old.script().engines.get_mut(&session.id).unwrap().conversation = Some("conv-2".to_owned());
    let moved = ensure(&world, &wish_there()).await.unwrap().session;
    assert_eq!(new.calls_of(Verb::Start).pop().unwrap().body["engine_session_id"], "conv-2");
    assert_eq!((moved.engine_session_id.as_deref(), moved.generation), (Some("conv-2"), 2));
}

#[tokio::test]
async fn without_naming_a_runner_nothing_is_moved() {
    let (world, old, new, session) = stage().await;
    let found = ensure(&world, &wish()).await.unwrap();
    assert!(!found.opened);
    stays(&world, (&old, &new), &session).await;
}

#[tokio::test]
async fn one_at_work_waiting_or_unclear_is_refused_and_stays() {
    let doing = |change: fn(&mut EngineState)| {
        let mut state = silent(HOUR);
        change(&mut state);
        state
    };
    for state in [
        doing(|state| (state.generating, state.turn_silent_ms) = (Told::Is(true), Some(0))),
        doing(|state| (state.background_tasks, state.background_silent_ms) = (Told::Is(1), Some(0))),
        doing(|state| (state.awaiting_input, state.awaiting_ms) = (Told::Is(true), Some(0))),
        doing(|state| state.next_wake_in_ms = Some(MINUTE)),
        doing(|state| state.generating = Told::Unknown),
        // Past each limit of the session: nobody asked for these to be stopped.
        doing(|state| (state.generating, state.turn_silent_ms) = (Told::Is(true), Some(30 * MINUTE))),
        doing(|state| (state.generating, state.turn_silent_ms) = (Told::Is(true), Some(30 * DAY))),
        doing(|state| (state.generating, state.stalled) = (Told::Is(true), Told::Is(true))),
        doing(|state| {
            (state.generating, state.stalled, state.idle_ms) = (Told::Is(true), Told::Is(true), Told::Silent);
        }),
        doing(|state| (state.background_tasks, state.background_silent_ms) = (Told::Is(1), Some(DAY))),
        doing(|state| (state.background_tasks, state.background_silent_ms) = (Told::Is(1), Some(30 * DAY))),
        doing(|state| (state.awaiting_input, state.awaiting_ms) = (Told::Is(true), Some(DAY))),
        doing(|state| (state.awaiting_input, state.awaiting_ms) = (Told::Is(true), Some(30 * DAY))),
        doing(|state| {
            (state.awaiting_input, state.generating, state.idle_ms) =
                (Told::Is(true), Told::Is(true), Told::Is(30 * DAY));
        }),
        doing(|state| state.next_wake_in_ms = Some(-HOUR)),
        doing(|state| state.next_wake_in_ms = Some(30 * DAY)),
        doing(|state| (state.generating, state.idle_ms) = (Told::Unknown, Told::Is(30 * DAY))),
        doing(|state| (state.unclear, state.idle_ms) = (true, Told::Is(30 * DAY))),
    ] {
        for force in [false, true] {
            let (world, old, new, session) = stage().await;
            old.hold_engine(&session.id, 1, state.clone());
            let refused = ensure(&world, &StartWish { force, ..wish_there() }).await.unwrap_err();
            assert!(matches!(&refused, VerbError::Conflict(why) if why.contains("stays on runner mac-mini")));
            stays(&world, (&old, &new), &session).await;
        }
    }
}

#[tokio::test]
async fn a_turn_that_begins_in_the_same_moment_keeps_it() {
    let (world, old, new, session) = stage().await;
    let gate = old.hold(Verb::End, When::Arrived);
    let wish = wish_there();
    let (refused, ()) = tokio::join!(ensure(&world, &wish), async {
        gate.reached().await;
        let busy = EngineState { generating: Told::Is(true), turn_silent_ms: Some(0), ..silent(0) };
        old.hold_engine(&session.id, 1, busy);
        gate.open();
    });
    assert!(matches!(refused, Err(VerbError::Conflict(why)) if why.contains("a turn is running")));
    stays(&world, (&old, &new), &session).await;
}

#[tokio::test]
async fn a_runner_that_refuses_or_has_not_finished_keeps_it() {
    for answering in [Answering::Refuse(Because::Active), Answering::Accept] {
        let (world, old, new, session) = stage().await;
        old.answer(Verb::End, None, answering.clone());
        ensure(&world, &StartWish { force: true, ..wish_there() }).await.unwrap_err();
        stays(&world, (&old, &new), &session).await;
    }
}

#[tokio::test]
async fn a_runner_that_checks_no_condition_is_not_asked_to_stop() {
    let (world, old, new, session) = stage().await;
    world.store().reset_runner(&id("mac-mini")).await.unwrap();
    old.script().foreign = true;
    ensure(&world, &StartWish { force: true, ..wish_there() }).await.unwrap_err();
    assert!(old.calls_of(Verb::End).is_empty());
    stays(&world, (&old, &new), &session).await;
}

#[tokio::test]
async fn nothing_is_stopped_for_a_runner_that_could_not_take_it() {
    let health =
        json!({"protocol": 1, "runner_id": "pc", "epoch": 1, "ready": true, "engines": ["other"], "sessions": 0});
    for answering in [
        Answering::Raw(Raw::json(200, health.to_string())),
        Answering::Raw(Raw::bare(500)),
        Answering::Raw(Raw::bare(401)),
        Answering::Reset,
    ] {
        let (world, old, new, session) = stage().await;
        new.answer(Verb::Health, None, answering.clone());
        let refused = ensure(&world, &wish_there()).await.unwrap_err();
        assert!(matches!(&refused, VerbError::Runner(why) if why.starts_with("nothing was moved")), "{refused}");
        assert!(old.calls_of(Verb::End).is_empty());
        stays(&world, (&old, &new), &session).await;
    }
}

#[tokio::test]
async fn one_that_does_not_start_here_goes_back_where_it_was() {
    let (world, old, new, session) = stage().await;
    new.answer_once(Verb::Start, None, start_failed(2, &session, "pc"));
    let failed = ensure(&world, &wish_there()).await.unwrap_err();
    assert!(matches!(&failed, VerbError::Runner(why) if why.contains("goes on on runner mac-mini")), "{failed}");
    let row = world.read(&session).await;
    assert_eq!((row.status, &row.runner_id, row.generation), (Status::Active, &id("mac-mini"), 3));
    let start = old.calls_of(Verb::Start).pop().unwrap();
    assert_eq!((&start.body["generation"], &start.body["engine_session_id"]), (&json!(3), &json!(CONVERSATION)));
    let told = entries(&world, &session).await.pop().unwrap();
    assert!(told.message.contains("Moved back") && told.message.contains("command not found"), "{told:?}");
    world.sweep().await;
    assert_eq!(world.read(&session).await.status, Status::Active);
}

#[tokio::test]
async fn one_of_which_something_may_be_left_here_is_not_started_where_it_was() {
    let (world, old, new, session) = stage().await;
    new.answer_once(Verb::Start, None, busy(2, &session, "pc"));
    let unclear = ensure(&world, &wish_there()).await.unwrap_err();
    assert!(matches!(&unclear, VerbError::Runner(why) if why.contains("did not say whether")), "{unclear}");
    let row = world.read(&session).await;
    assert_eq!((row.status, &row.runner_id, row.generation), (Status::Starting, &id("pc"), 2));
    assert_eq!(old.calls_of(Verb::Start).len(), 1, "the one it was opened with");
}

#[tokio::test]
async fn one_that_starts_nowhere_any_more_is_closed_and_keeps_its_conversation() {
    let (world, old, new, session) = stage().await;
    new.answer_once(Verb::Start, None, start_failed(2, &session, "pc"));
    old.answer_once(Verb::Start, None, start_failed(3, &session, "mac-mini"));
    ensure(&world, &wish_there()).await.unwrap_err();
    let row = world.read(&session).await;
    assert_eq!((row.status, row.end_reason.as_deref()), (Status::Ended, Some("start_failed")));
    assert_eq!((row.engine_session_id.as_deref(), &row.runner_id), (Some(CONVERSATION), &id("mac-mini")));
}

#[tokio::test]
async fn one_without_an_engine_there_is_started_here() {
    let (world, old, _new, session) = stage().await;
    lose(&old, &session);
    let moved = ensure(&world, &wish_there()).await.unwrap();
    assert_eq!((moved.opened, &moved.session.runner_id, moved.session.generation), (false, &id("pc"), 2));
    assert!(old.calls_of(Verb::End).is_empty());
}

#[tokio::test]
async fn one_whose_engine_had_ended_is_closed_and_a_new_session_is_opened_here() {
    let (world, old, _new, session) = stage().await;
    old.script().end_by_itself(&session.id, "exited", &world.clock);
    let fresh = ensure(&world, &wish_there()).await.unwrap();
    assert!(fresh.opened && fresh.session.id != session.id && fresh.session.runner_id == id("pc"));
    assert_eq!(world.read(&session).await.end_reason.as_deref(), Some("exited"));
}

#[tokio::test]
async fn a_pass_that_closes_the_row_for_the_stop_does_not_end_the_move() {
    let (world, old, _new, session) = stage().await;
    let gate = old.hold(Verb::End, When::Decided);
    let wish = wish_there();
    let (moved, ()) = tokio::join!(ensure(&world, &wish), async {
        gate.reached().await;
        world.sweep().await;
        assert_eq!(world.read(&session).await.end_reason.as_deref(), Some("relocated"));
        gate.open();
    });
    let moved = moved.unwrap();
    assert_eq!((moved.opened, &moved.session.id, &moved.session.runner_id), (false, &session.id, &id("pc")));
    assert_eq!(moved.session.status, Status::Active);
    assert_eq!(kinds(&world, &session).await, [EntryKind::Started, EntryKind::Ended, EntryKind::Relocated]);
}

#[tokio::test]
async fn two_who_move_it_at_once_move_it_once() {
    let (world, old, new, session) = stage().await;
    let wish = wish_there();
    let (one, two) = tokio::join!(ensure(&world, &wish), ensure(&world, &wish));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(!one.opened && !two.opened);
    assert_eq!((one.session.generation, two.session.generation), (2, 2));
    assert_eq!((old.script().stops.len(), new.calls_of(Verb::Start).len()), (1, 1));
    assert_eq!(kinds(&world, &session).await.len(), 3);
}
