//! What the store promises beyond the story: each guard holds a row back, and nothing is written when it does.

mod candidates;
mod open;
mod race;
mod story;

use sexton::entry::{EntryKind, NewEntry};
use sexton::session::{ActivityKind, RunStatus, Session, Status};
use sexton::store::{
    Begun, Close, Closed, EntryFilter, Guard, Imported, Keep, Protected, Recorded, Reopened, RunnerMemory,
    SessionFilter, Store, Touch,
};
use sexton::time::{HOUR, MINUTE, SECOND, UtcMs};

use crate::support::rows::{
    NOON, begin, begin_run, entry, id, insert, item, items, keep, new_store, read, run, runner, session,
};

async fn close(store: &Store, row: &Session, guard: Guard) -> Closed {
    let at = NOON.plus(HOUR);
    let (ended, item) = (entry(row, EntryKind::Ended, at), item(row, "s1", at));
    let close = Close { session: row, at, reason: "idle", guard, entry: &ended, item: Some(&item) };
    store.close_session(&close).await.unwrap()
}

async fn kinds(store: &Store) -> Vec<EntryKind> {
    let entries = store.list_timeline(&EntryFilter::default()).await.unwrap();
    entries.into_iter().map(|entry| entry.kind).collect()
}

/// Nothing but the start is on record.
async fn nothing_happened(store: &Store, row: &Session) {
    assert!(read(store, row).await.is_open());
    assert_eq!(kinds(store).await, [EntryKind::Started]);
    assert!(items(store, &id("s1")).await.is_empty());
    assert!(store.list_sweeps(10).await.unwrap().is_empty());
}

#[tokio::test]
async fn ids_are_found_by_their_beginning_and_by_their_neighbours() {
    let (_folder, store) = new_store().await;
    for name in ["ab", "abc", "abz", "b_1", "b-1"] {
        insert(&store, &session(name)).await;
    }
    for (beginning, found) in [("ab", vec!["abc", "abz"]), ("b_", vec!["b_1"]), ("B", vec![]), ("abz0", vec![])] {
        let sessions = store.list_sessions_beginning(&id(beginning), 3, 9).await.unwrap();
        let ids: Vec<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
        assert_eq!(ids, found, "{beginning}");
    }
    assert_eq!(store.list_sessions_beginning(&id("ab"), 3, 1).await.unwrap().len(), 1);
    let found = store.find_neighbours(&[id("ab"), id("b_1")]).await.unwrap();
    let sides: Vec<_> = found.iter().map(|one| (one.before.as_deref(), one.behind.as_deref())).collect();
    assert_eq!(sides, [(None, Some("abc")), (Some("b-1"), None)]);
}

#[tokio::test]
async fn a_late_word_about_one_start_never_closes_the_next() {
    let (_folder, store) = new_store().await;
    let first = session("a");
    insert(&store, &first).await;
    begin(&store, &first, &id("mac"), NOON).await;
    for guard in [Guard::EngineGone, Guard::Unchanged] {
        assert_eq!(close(&store, &first, guard).await, Closed::LostRace);
    }
    assert!(read(&store, &first).await.is_open());
    assert_eq!(kinds(&store).await, [EntryKind::Started, EntryKind::Started]);
    assert!(items(&store, &id("s1")).await.is_empty());
}

#[tokio::test]
async fn a_start_rests_on_exactly_what_was_read() {
    type Change = fn(&mut Session);
    let changes: [(&str, Change); 4] = [
        ("generation", |read| read.generation = 2),
        ("reopened", |read| read.reopened = 1),
        ("status", |read| read.status = Status::Ended),
        ("runner", |read| read.runner_id = id("elsewhere")),
    ];
    let (_folder, store) = new_store().await;
    let row = session("a");
    insert(&store, &row).await;
    for (name, change) in changes {
        let mut stale = row.clone();
        change(&mut stale);
        assert_eq!(begin(&store, &stale, &id("pc"), NOON).await, Begun::LostRace, "{name}");
        nothing_happened(&store, &row).await;
    }
}

#[tokio::test]
async fn the_newest_session_is_the_last_started_and_not_that_of_the_last_id() {
    let (_folder, store) = new_store().await;
    let ended = |name: &str| Session {
        repo: "/src/a".to_owned(),
        status: Status::Ended,
        ended_at: Some(NOON.plus(HOUR)),
        end_reason: Some("idle".to_owned()),
        ..session(name)
    };
    let old = Session { started_at: Some(NOON.minus(HOUR)), attached_at: None, ..ended("zz-imported") };
    let again = Session { started_at: Some(NOON.minus(2 * HOUR)), attached_at: Some(NOON.plus(1)), ..ended("aa") };
    let unknown = Session { started_at: None, attached_at: None, ..ended("zz-undated") };
    for row in [&old, &again, &unknown, &ended("mm")] {
        insert(&store, row).await;
    }
    let newest = store.find_newest_session("ann", "/src/a").await.unwrap();
    assert_eq!(newest.map(|row| row.id), Some(again.id));
}

#[tokio::test]
async fn a_row_that_was_used_since_it_was_read_is_not_closed_without_a_stop() {
    type Use = fn(&Store, Session) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>>;
    let uses: [(&str, Use); 6] = [
        ("touch", |store, row| {
            Box::pin(async move {
                let touch = Touch { id: row.id, at: NOON.plus(1), kind: ActivityKind::Capture };
                store.write_touches(&[touch]).await.unwrap();
            })
        }),
        ("engine", |store, row| {
            Box::pin(async move {
                store.note_engine_work(&[row.id], NOON.plus(MINUTE), MINUTE).await.unwrap();
            })
        }),
        ("keep", |store, row| {
            Box::pin(async move {
                keep(store, &row, NOON.plus(HOUR), NOON).await;
            })
        }),
        ("driver", |store, row| {
            Box::pin(async move {
                store.claim_driver(&row.id, "ann", NOON, NOON).await.unwrap();
            })
        }),
        ("move", |store, row| {
            Box::pin(async move {
                begin(store, &row, &id("pc"), NOON).await;
            })
        }),
        ("reopen", |store, row| {
            Box::pin(async move {
                close(store, &row, Guard::Unchanged).await;
                let ended = read(store, &row).await;
                let entry = entry(&ended, EntryKind::Reopened, NOON);
                assert_eq!(store.reopen_session(&ended, NOON, &entry, None).await.unwrap(), Reopened::Done);
            })
        }),
    ];
    for (name, use_it) in uses {
        let (_folder, store) = new_store().await;
        let row = session("a");
        insert(&store, &row).await;
        use_it(&store, row.clone()).await;
        assert_eq!(close(&store, &row, Guard::Unchanged).await, Closed::LostRace, "{name}");
        assert!(read(&store, &row).await.is_open(), "{name}");
    }
}

#[tokio::test]
async fn an_engines_own_id_is_never_noted_in_the_row_of_another_owner() {
    let (_folder, store) = new_store().await;
    let bobs = |name: &str| Session { owner_id: Some("bob".to_owned()), ..session(name) };
    let rows = [session("a"), bobs("b"), Session { runner_id: id("pc"), ..bobs("c") }, session("d")];
    for row in &rows {
        insert(&store, row).await;
    }
    let said = |name: &str| (id(name), Some(1), "own".to_owned());
    assert_eq!(
        store.note_engine_ids(&id("mac"), &[said("a"), said("b")]).await.unwrap(),
        1,
        "the first of two at once"
    );
    for ended in [false, true] {
        if ended {
            close(&store, &read(&store, &rows[0]).await, Guard::EngineGone).await;
        }
        assert_eq!(store.note_engine_ids(&id("mac"), &[said("b")]).await.unwrap(), 0);
        assert!(!store.set_engine_session_id(&id("c"), 1, "own").await.unwrap(), "whatever its runner");
    }
    assert!(store.set_engine_session_id(&id("d"), 1, "own").await.unwrap(), "the same owner's");
    let mut noted = Vec::new();
    for row in &rows {
        noted.push(read(&store, row).await.engine_session_id);
    }
    assert_eq!(noted, [Some("own".to_owned()), None, None, Some("own".to_owned())]);
    assert_eq!(store.find_engine_session("own", Some(("bob", false))).await.unwrap(), None);
}

#[tokio::test]
async fn a_shared_use_only_moves_forward_and_no_other_use_hides_it() {
    let (_folder, store) = new_store().await;
    let row = session("a");
    insert(&store, &row).await;
    let touch = |after: i64, kind| Touch { id: row.id.clone(), at: NOON.plus(after), kind };
    assert_eq!(store.find_shared_use(&row.id).await.unwrap(), None);
    store.write_touches(&[touch(2, ActivityKind::Copilot), touch(3, ActivityKind::Capture)]).await.unwrap();
    assert_eq!(read(&store, &row).await.last_activity_kind, Some(ActivityKind::Capture));
    store.write_touches(&[touch(1, ActivityKind::Timeline)]).await.unwrap();
    store.write_touches(&[touch(9, ActivityKind::Run)]).await.unwrap();
    assert_eq!(store.find_shared_use(&row.id).await.unwrap(), Some(NOON.plus(2)));
    keep(&store, &row, NOON.plus(HOUR), NOON.plus(5)).await;
    assert_eq!(store.find_shared_use(&row.id).await.unwrap(), Some(NOON.plus(5)));
}

#[tokio::test]
async fn a_starting_row_that_got_going_is_not_closed_as_failed() {
    let (_folder, store) = new_store().await;
    let row = Session { status: Status::Starting, ..session("a") };
    insert(&store, &row).await;
    store.mark_active(&row.id, 1, NOON).await.unwrap();
    assert_eq!(close(&store, &row, Guard::Unchanged).await, Closed::LostRace);
    nothing_happened(&store, &row).await;
}

#[tokio::test]
async fn a_touch_does_not_hold_back_the_close_of_an_engine_that_is_gone() {
    let (_folder, store) = new_store().await;
    let row = session("a");
    insert(&store, &row).await;
    store.write_touches(&[Touch { id: row.id.clone(), at: NOON.plus(1), kind: ActivityKind::Capture }]).await.unwrap();
    assert_eq!(close(&store, &row, Guard::EngineGone).await, Closed::Done);
    assert_eq!(close(&store, &row, Guard::EngineGone).await, Closed::LostRace);
    assert_eq!(kinds(&store).await, [EntryKind::Started, EntryKind::Ended]);
}

#[tokio::test]
async fn a_row_is_not_closed_without_its_entry() {
    let (_folder, store) = new_store().await;
    let row = session("a");
    insert(&store, &row).await;
    let same = NewEntry { once: Some("ended:1:0".to_owned()), ..entry(&row, EntryKind::Warned, NOON) };
    assert!(store.add_entry(&same).await.unwrap());
    assert!(!store.add_entry(&same).await.unwrap());
    assert_eq!(close(&store, &row, Guard::EngineGone).await, Closed::LostRace);
    assert_eq!(read(&store, &row).await, row);
    assert!(items(&store, &id("s1")).await.is_empty());
}

#[tokio::test]
async fn a_row_whose_engine_is_gone_is_never_reopened() {
    let (_folder, store) = new_store().await;
    let row = session("a");
    insert(&store, &row).await;
    close(&store, &row, Guard::EngineGone).await;
    let ended = read(&store, &row).await;
    let reopened = entry(&ended, EntryKind::Reopened, NOON);
    assert_eq!(store.reopen_session(&ended, NOON, &reopened, None).await.unwrap(), Reopened::AlreadyStopped);
    assert!(!read(&store, &row).await.is_open());
}

#[tokio::test]
async fn a_row_whose_place_is_taken_is_not_reopened() {
    let (_folder, store) = new_store().await;
    let row = session("a");
    insert(&store, &row).await;
    close(&store, &row, Guard::Unchanged).await;
    insert(&store, &Session { repo: row.repo.clone(), ..session("b") }).await;
    let ended = read(&store, &row).await;
    let reopened = entry(&ended, EntryKind::Reopened, NOON);
    assert_eq!(store.reopen_session(&ended, NOON, &reopened, None).await.unwrap(), Reopened::Taken);
    assert_eq!(read(&store, &row).await, ended);
    assert!(!kinds(&store).await.contains(&EntryKind::Reopened));
}

#[tokio::test]
async fn the_end_of_an_engine_is_told_once_whether_it_closed_the_row_or_not() {
    let (_folder, store) = new_store().await;
    let row = session("a");
    insert(&store, &row).await;
    let stopped = entry(&row, EntryKind::Stopped, NOON);
    let record = async |generation| store.record_stopped(&row.id, generation, &stopped, None).await.unwrap();
    assert_eq!(record(1).await, Recorded::StillOpen);
    close(&store, &row, Guard::EngineGone).await;
    assert_eq!(record(1).await, Recorded::AlreadyThere, "the end entry told it");
    assert_eq!(record(2).await, Recorded::Unknown, "the store never had that start");
    let unknown = store.record_stopped(&id("x"), 1, &stopped, None).await.unwrap();
    assert!(unknown == Recorded::Unknown && !unknown.may_forget());
    assert_eq!(kinds(&store).await, [EntryKind::Started, EntryKind::Ended]);
}

#[tokio::test]
async fn touches_only_move_forward_and_revive_nothing() {
    let (_folder, store) = new_store().await;
    let (open, ended) = (session("a"), session("b"));
    insert(&store, &open).await;
    insert(&store, &ended).await;
    close(&store, &ended, Guard::EngineGone).await;
    store.postpone(&open.id, 1, NOON.plus(HOUR), MINUTE).await.unwrap();
    let touch = |row: &Session, at| Touch { id: row.id.clone(), at, kind: ActivityKind::Message };
    let touches = [touch(&open, NOON.minus(HOUR)), touch(&ended, NOON.plus(HOUR)), touch(&session("x"), NOON)];
    assert_eq!(store.write_touches(&touches).await.unwrap(), [id("a")]);
    let now = read(&store, &open).await;
    assert_eq!((now.last_activity_at, now.last_activity_kind), (Some(NOON), Some(ActivityKind::Start)));
    assert_eq!(now.next_check_at, None, "it clears the back-off all the same");
    assert_eq!(now.updated_at, open.updated_at);
    assert_eq!(read(&store, &ended).await.last_activity_at, Some(NOON));
    let worked = store.note_engine_work(&[id("a"), id("b")], NOON.plus(MINUTE - 1), MINUTE).await.unwrap();
    assert!(worked.is_empty(), "its last minute is not over");
    assert_eq!(store.note_engine_work(&[id("a"), id("b")], NOON.plus(MINUTE), MINUTE).await.unwrap(), [id("a")]);
}

#[tokio::test]
async fn ten_thousand_touches_are_one_statement() {
    let (_folder, store) = new_store().await;
    let rows: Vec<Session> = (0..10_000).map(|number| session(&format!("s{number:05}"))).collect();
    assert_eq!(store.import_sessions(&rows, "ann", |_| None).await.unwrap(), Imported::Done);
    let at = NOON.plus(MINUTE);
    let touches: Vec<Touch> =
        rows.iter().map(|row| Touch { id: row.id.clone(), at, kind: ActivityKind::Capture }).collect();
    assert_eq!(store.write_touches(&touches).await.unwrap().len(), 10_000);
}

#[tokio::test]
async fn times_in_the_future_are_set_to_now_once() {
    let (_folder, store) = new_store().await;
    let mut row = session("a");
    row.last_activity_at = Some(NOON.plus(24 * HOUR));
    row.attached_at = Some(NOON.plus(MINUTE + 1));
    row.driver_at = Some(NOON.plus(MINUTE));
    row.keep_until = Some(NOON.plus(24 * HOUR));
    insert(&store, &row).await;
    assert!(store.clamp_future(&row.id, NOON).await.unwrap());
    assert!(!store.clamp_future(&row.id, NOON).await.unwrap());
    let now = read(&store, &row).await;
    assert_eq!((now.last_activity_at, now.attached_at), (Some(NOON), Some(NOON)));
    assert_eq!((now.driver_at, now.keep_until), (row.driver_at, row.keep_until));
}

#[tokio::test]
async fn a_crash_makes_sessions_look_younger_by_the_throttle_at_most() {
    let (_folder, store) = new_store().await;
    for (name, last) in [("old", -2 * MINUTE), ("held", -MINUTE), ("late", 3 * MINUTE)] {
        insert(&store, &Session { last_activity_at: Some(NOON.plus(last)), ..session(name) }).await;
    }
    store.beat(&id("w1"), NOON).await.unwrap();
    store.beat(&id("w2"), NOON.plus(3 * MINUTE)).await.unwrap();
    let now = NOON.plus(3 * MINUTE + 10 * SECOND);
    assert_eq!(store.forgive_crashes(now, 30 * SECOND, MINUTE).await.unwrap(), 2);
    assert_eq!(store.forgive_crashes(now, 30 * SECOND, MINUTE).await.unwrap(), 0);
    let last = async |name| read(&store, &session(name)).await.last_activity_at.unwrap().since(NOON);
    assert_eq!((last("old").await, last("held").await, last("late").await), (-2 * MINUTE, 0, 3 * MINUTE + 10 * SECOND));
    store.retire(&id("w2")).await.unwrap();
    assert_eq!(store.forgive_crashes(now.plus(HOUR), 30 * SECOND, MINUTE).await.unwrap(), 0, "w2 stopped cleanly");
}

#[tokio::test]
async fn what_a_runner_showed_is_remembered_upwards_until_a_reset() {
    let (_folder, store) = new_store().await;
    store.add_runner(&runner("mac")).await.unwrap();
    let show = async |identity: &str, epoch, protocol, at: UtcMs| {
        let memory = RunnerMemory { identity: Some(identity.to_owned()), state_id: None, epoch, protocol };
        store.remember_runner(&id("mac"), memory, at).await.unwrap();
        let row = store.find_runner(&id("mac")).await.unwrap().unwrap();
        (row.identity.unwrap_or_default(), row.epoch, row.protocol, row.last_seen_at)
    };
    let first = ("m1".to_owned(), Some(7), Some(1), Some(NOON));
    assert_eq!(show("m1", Some(7), Some(1), NOON).await, first);
    assert_eq!(show("m1", Some(6), None, NOON).await, first, "neither goes down");
    assert_eq!(show("m2", Some(9), Some(1), NOON.plus(HOUR)).await, first, "another identity is not its own");
    assert_eq!(show("m1", Some(8), Some(1), NOON.plus(1)).await.1, Some(8), "news is written at once");
    store.record_seen(&id("mac"), NOON.plus(MINUTE)).await.unwrap();
    store.record_seen(&id("mac"), NOON).await.unwrap();
    store.add_runner(&sexton::session::Runner { url: "http://mac:7118".to_owned(), ..runner("mac") }).await.unwrap();
    assert_eq!(show("m1", Some(8), Some(1), NOON).await.3, Some(NOON.plus(MINUTE)));
    assert!(store.reset_runner(&id("mac")).await.unwrap());
    assert_eq!(show("m2", Some(1), None, NOON).await, ("m2".to_owned(), Some(1), None, Some(NOON.plus(MINUTE))));
    assert!(store.remove_runner(&id("mac")).await.unwrap() && store.list_runners().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_state_folder_a_runner_showed_is_kept_until_a_reset() {
    let (_folder, store) = new_store().await;
    store.add_runner(&runner("mac")).await.unwrap();
    let show = async |state_id: Option<&str>, epoch| {
        let memory = RunnerMemory {
            identity: Some("mac".to_owned()),
            state_id: state_id.map(str::to_owned),
            epoch: Some(epoch),
            protocol: Some(1),
        };
        store.remember_runner(&id("mac"), memory, NOON).await.unwrap();
        let row = store.find_runner(&id("mac")).await.unwrap().unwrap();
        (row.state_id, row.epoch)
    };
    let kept = |epoch| (Some("one".to_owned()), Some(epoch));
    assert_eq!(show(None, 1).await, (None, Some(1)));
    assert_eq!(show(Some("one"), 1).await, kept(1), "news is written at once");
    assert_eq!(show(Some("two"), 9).await, kept(1), "another folder is not its own");
    assert_eq!(show(None, 2).await, kept(2), "silence changes nothing");
    store.add_runner(&sexton::session::Runner { url: "http://mac:7118".to_owned(), ..runner("mac") }).await.unwrap();
    assert_eq!(show(None, 2).await, kept(2), "nor does a new address");
    assert!(store.reset_runner(&id("mac")).await.unwrap());
    assert_eq!(show(Some("two"), 1).await, (Some("two".to_owned()), Some(1)));
}

#[tokio::test]
async fn a_run_that_beats_or_finishes_in_time_is_not_stale() {
    let (_folder, store) = new_store().await;
    let row = session("a");
    insert(&store, &row).await;
    begin_run(&store, &run("r1", &row)).await;
    let stale = entry(&row, EntryKind::RunStale, NOON);
    let as_read = store.list_stale_runs(NOON, 10).await.unwrap();
    assert!(store.beat_run(&as_read[0], NOON.plus(1)).await.unwrap());
    assert!(!store.mark_stale(&as_read[0], NOON, &stale, None).await.unwrap());
    assert!(store.mark_stale(&as_read[0], NOON.plus(1), &stale, None).await.unwrap());
    let called_stale = store.find_run(&row.id, &id("r1")).await.unwrap().unwrap();
    assert_eq!((called_stale.status, called_stale.stale_at), (RunStatus::Stale, Some(NOON)));
    assert!(store.beat_run(&as_read[0], NOON.plus(2)).await.unwrap(), "it goes on after all");
    let goes_on = store.find_run(&row.id, &id("r1")).await.unwrap().unwrap();
    assert_eq!((goes_on.status, goes_on.stale_at), (RunStatus::Running, None));
    let done = (RunStatus::Succeeded, Some("all green"));
    let finished = entry(&row, EntryKind::RunFinished, NOON.plus(3));
    assert!(!store.finish_run(&called_stale, done, NOON.plus(3), &finished).await.unwrap(), "not as it was read");
    assert!(store.finish_run(&goes_on, done, NOON.plus(3), &finished).await.unwrap());
    assert!(!store.beat_run(&as_read[0], NOON.plus(4)).await.unwrap(), "it is over");
    let over = store.find_run(&row.id, &id("r1")).await.unwrap().unwrap();
    assert_eq!((over.status, over.result.as_deref()), (RunStatus::Succeeded, Some("all green")));
    let told = [EntryKind::Started, EntryKind::RunStarted, EntryKind::RunStale, EntryKind::RunFinished];
    assert_eq!(kinds(&store).await, told);
    assert!(read(&store, &row).await.is_open(), "the session stays");
}

#[tokio::test]
async fn an_import_is_all_or_nothing_and_names_what_is_in_its_way() {
    let (_folder, store) = new_store().await;
    insert(&store, &session("a")).await;
    let legacy = Session { owner_id: None, ..session("b") };
    let import = async |rows: &[Session]| store.import_sessions(rows, "ann", |_| None).await.unwrap();
    let twice = [legacy.clone(), session("a")];
    let why = "there is a session a already".to_owned();
    assert_eq!(import(&twice).await, Imported::Refused { index: 1, why });
    let same_place = [legacy.clone(), Session { repo: legacy.repo.clone(), ..session("c") }];
    let why = "session c would be the second open one of its owner in its repo".to_owned();
    assert_eq!(import(&same_place).await, Imported::Refused { index: 1, why });
    assert_eq!(store.list_sessions(&SessionFilter::default()).await.unwrap().len(), 1);
    assert_eq!(import(std::slice::from_ref(&legacy)).await, Imported::Done);
    assert_eq!(read(&store, &legacy).await.owner_id.as_deref(), Some("ann"));
}

#[tokio::test]
async fn rows_without_an_owner_count_as_one_and_can_be_adopted() {
    let (_folder, store) = new_store().await;
    let legacy = Session { owner_id: None, ..session("a") };
    insert(&store, &legacy).await;
    insert(&store, &Session { owner_id: None, ..session("b") }).await;
    insert(&store, &Session { repo: "/src/b".to_owned(), ..session("c") }).await;
    let taken = store.find_open_session(None, "/src/a").await.unwrap().unwrap();
    assert_eq!(taken.id, legacy.id);
    assert_eq!(store.adopt_ownerless("ann").await.unwrap(), 1, "b's place is ann's already");
    assert_eq!(read(&store, &legacy).await.owner_id.as_deref(), Some("ann"));
    let filter = SessionFilter { owner: Some("ann".to_owned()), open_only: true, ..SessionFilter::default() };
    assert_eq!(store.list_sessions(&filter).await.unwrap().len(), 2);
    let page = SessionFilter { after: Some(id("a")), limit: Some(1), runner: Some(id("mac")), ..filter };
    assert_eq!(store.list_sessions(&page).await.unwrap()[0].id, id("c"));
}

#[tokio::test]
async fn the_word_that_an_engine_is_gone_outlives_the_timeline() {
    let (_folder, store) = new_store().await;
    let row = session("a");
    insert(&store, &row).await;
    close(&store, &row, Guard::EngineGone).await;
    let keep = Keep { ended_ms: 1_000 * 24 * HOUR, timeline_ms: HOUR, sweeps: 0 };
    let pruned = store.prune(NOON.plus(24 * HOUR), &keep, &Protected::default()).await.unwrap();
    assert_eq!((pruned.sessions, pruned.entries, pruned.sweeps), (0, 1, 1));
    assert!(store.has_stopped(&row.id, 1).await.unwrap());
    let keep = Keep { ended_ms: HOUR, ..keep };
    let unknown = [id("mac")];
    let unanswered = Protected { sessions: &[], runners: &unknown };
    assert_eq!(store.prune(NOON.plus(24 * HOUR), &keep, &unanswered).await.unwrap().sessions, 0);
    let pruned = store.prune(NOON.plus(24 * HOUR), &keep, &Protected::default()).await.unwrap();
    assert_eq!((pruned.sessions, pruned.entries), (1, 1));
}

#[tokio::test]
async fn settings_and_tokens_come_and_go() {
    let (_folder, store) = new_store().await;
    assert!(!store.is_paused().await.unwrap());
    store.set_setting(sexton::store::PAUSED, "ann").await.unwrap();
    assert!(store.is_paused().await.unwrap());
    assert!(store.delete_setting(sexton::store::PAUSED).await.unwrap());
    let token = sexton::store::Token {
        id: id("t1"),
        hash: "abc".to_owned(),
        owner_id: "ann".to_owned(),
        scope: "read,use".to_owned(),
        created_at: NOON,
        revoked_at: None,
        lease: None,
    };
    store.insert_token(&token).await.unwrap();
    assert_eq!(store.find_token("abc").await.unwrap(), Some(token));
    assert!(store.revoke_token(&id("t1"), NOON).await.unwrap());
    assert_eq!(store.find_token("abc").await.unwrap(), None);
    assert_eq!((store.count_tokens().await.unwrap(), store.list_tokens().await.unwrap().len()), (0, 1));
}
