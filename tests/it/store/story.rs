//! The life of a session as the store sees it, told once for every dialect: SQLite here, PostgreSQL by the same function.

use sexton::entry::EntryKind;
use sexton::session::{ActivityKind, Status};
use sexton::store::{Begun, Claim, Close, Closed, EntryFilter, Guard, Inserted, Keep, Protected, Recorded, Reopened};
use sexton::store::{NewSweep, RunnerMemory, SessionFilter, Store, Touch};
use sexton::time::{HOUR, MINUTE, SECOND};

use crate::support::rows::{
    NOON, begin, begin_run, entry, id, insert, item, items, new_store, read, run, runner, session,
};

#[tokio::test]
async fn sqlite_tells_the_story() {
    let (_folder, store) = new_store().await;
    story(&store).await;
}

/// Needs an empty store.
async fn story(store: &Store) {
    enrol_a_runner(store).await;
    start(store).await;
    use_it(store).await;
    look_for_idle_ones(store).await;
    close_it(store).await;
    find_it_in_use_after_all(store).await;
    start_it_again(store).await;
    forget_it(store).await;
}

async fn enrol_a_runner(store: &Store) {
    store.add_runner(&runner("mac")).await.unwrap();
    let seen =
        RunnerMemory { identity: Some("mac-mini".to_owned()), state_id: None, epoch: Some(7), protocol: Some(1) };
    store.remember_runner(&id("mac"), seen, NOON).await.unwrap();
    let row = store.find_runner(&id("mac")).await.unwrap().unwrap();
    assert_eq!((row.identity.as_deref(), row.epoch, row.protocol), (Some("mac-mini"), Some(7), Some(1)));
    assert_eq!(row.last_seen_at, Some(NOON));
}

async fn start(store: &Store) {
    let mut row = session("a");
    row.status = Status::Starting;
    insert(store, &row).await;
    assert_eq!(read(store, &row).await, row);

    let mut second = session("b");
    second.repo.clone_from(&row.repo);
    let answer = store.insert_started(&second, &[], &entry(&second, EntryKind::Started, NOON)).await.unwrap();
    assert_eq!(answer, Inserted::Taken(Box::new(row.clone())));

    assert_eq!(store.list_starting(NOON).await.unwrap().len(), 1);
    assert!(store.mark_active(&row.id, 1, NOON).await.unwrap());
    assert!(!store.mark_active(&row.id, 1, NOON).await.unwrap(), "it is active already");
    begin_run(store, &run("r", &row)).await;
}

async fn use_it(store: &Store) {
    let row = session("a");
    let touch = |after, kind| Touch { id: row.id.clone(), at: NOON.plus(after), kind };
    let touches = [touch(2 * MINUTE, ActivityKind::Message), touch(MINUTE, ActivityKind::Capture)];
    assert_eq!(store.write_touches(&touches).await.unwrap(), std::slice::from_ref(&row.id));
    let now = read(store, &row).await;
    assert_eq!(now.last_activity_at, Some(NOON.plus(2 * MINUTE)));
    assert_eq!(now.last_activity_kind, Some(ActivityKind::Message));

    let stale = NOON.minus(15 * MINUTE);
    assert_eq!(store.claim_driver(&row.id, "ann", NOON, stale).await.unwrap(), Claim::Yours);
    let held = Claim::HeldBy { driver: "ann".to_owned(), since: NOON };
    assert_eq!(store.claim_driver(&row.id, "bob", NOON, stale).await.unwrap(), held);
    assert_eq!(store.claim_driver(&row.id, "bob", NOON.plus(15 * MINUTE), NOON).await.unwrap(), Claim::Yours);
    assert!(store.release_driver(&row.id, "bob").await.unwrap());
    let told = entry(&row, EntryKind::Kept, NOON.plus(3 * MINUTE));
    let lunch = (NOON.plus(HOUR), "lunch");
    assert!(store.keep_and_tell(&row.id, lunch, NOON.plus(3 * MINUTE), &told).await.unwrap());
    assert!(!store.keep_and_tell(&id("nobody"), lunch, NOON, &told).await.unwrap());
}

async fn look_for_idle_ones(store: &Store) {
    let row = read(store, &session("a")).await;
    let due = NOON.plus(3 * MINUTE).plus(6 * HOUR);
    let list = async |now| store.list_idle_candidates(now, 6 * HOUR, None, 10).await.unwrap();
    assert!(list(due.minus(1)).await.is_empty());
    let found = list(due).await;
    assert_eq!((found.len(), &found[0].session, found[0].due_at), (1, &row, Some(due)));

    assert!(store.postpone(&row.id, 1, due.plus(MINUTE), MINUTE).await.unwrap());
    assert_eq!(store.find_check_delay(&row.id).await.unwrap(), Some(MINUTE));
    assert!(list(due).await.is_empty());
    assert!(store.note_limits("6h").await.unwrap(), "the first ones");
    assert_eq!(store.find_check_delay(&row.id).await.unwrap(), None);
    assert_eq!(list(due).await.len(), 1);
    assert!(store.postpone(&row.id, 1, due.plus(MINUTE), MINUTE).await.unwrap());
    assert!(!store.note_limits("6h").await.unwrap());
    assert!(list(due).await.is_empty(), "the same limits change nothing");
    assert!(store.note_limits("1h").await.unwrap());
    assert_eq!(list(due).await.len(), 1, "others let every row be looked at again");

    assert_eq!(store.count_open(&id("mac")).await.unwrap(), 1);
    assert_eq!(store.list_untracked(&id("mac"), &[]).await.unwrap().len(), 1);
    assert!(store.list_untracked(&id("mac"), &[id("a"), id("x")]).await.unwrap().is_empty());
    assert!(store.list_unenrolled_runners().await.unwrap().is_empty());
    let tracked = [(id("a"), Some(1)), (id("x"), None)];
    assert_eq!(store.list_mismatched(&id("mac"), &tracked).await.unwrap(), [(id("x"), None)]);
}

async fn close_it(store: &Store) {
    let row = read(store, &session("a")).await;
    let at = NOON.plus(7 * HOUR);
    let stale = store.list_stale_runs(at, 10).await.unwrap();
    assert!(store.mark_stale(&stale[0], at, &entry(&row, EntryKind::RunStale, at), None).await.unwrap());

    let close = Close {
        session: &row,
        at,
        reason: "machine_gone",
        guard: Guard::Unchanged,
        entry: &entry(&row, EntryKind::Ended, at),
        item: Some(&item(&row, "s1", at)),
    };
    assert_eq!(store.close_session(&close).await.unwrap(), Closed::Done);
    assert_eq!(store.close_session(&close).await.unwrap(), Closed::LostRace, "it is closed already");
    let now = read(store, &row).await;
    assert_eq!((now.status, now.ended_at, now.end_reason.as_deref()), (Status::Ended, Some(at), Some("machine_gone")));
    assert_eq!(items(store, &id("s1")).await, [item(&row, "s1", at)]);
    let sweeps = store.list_sweeps(10).await.unwrap();
    let [sweep] = &sweeps[..] else { panic!("one of them acted: {sweeps:?}") };
    assert_eq!(
        (&sweep.id, sweep.finished_at, sweep.eventful),
        (&id("s1"), None, true),
        "a pass that is killed now is on record"
    );

    let report = NewSweep {
        id: id("s1"),
        trigger: "schedule".to_owned(),
        started_at: at.minus(SECOND),
        eventful: true,
        report: "{}".to_owned(),
    };
    store.save_sweep(report, at.plus(SECOND)).await.unwrap();
    assert_eq!(store.list_sweeps(10).await.unwrap()[0].finished_at, Some(at.plus(SECOND)));
}

async fn find_it_in_use_after_all(store: &Store) {
    let row = store.find_newest_gone(Some("ann"), "/src/a").await.unwrap().unwrap();
    let at = NOON.plus(8 * HOUR);
    let reopened = entry(&row, EntryKind::Reopened, at);
    assert_eq!(store.reopen_session(&row, at, &reopened, None).await.unwrap(), Reopened::Done);
    assert_eq!(store.reopen_session(&row, at, &reopened, None).await.unwrap(), Reopened::LostRace);
    let now = read(store, &row).await;
    assert_eq!((now.status, now.reopened, now.ended_at, now.end_reason), (Status::Active, 1, None, None));
    assert_eq!((now.last_activity_at, now.last_activity_kind), (Some(at), Some(ActivityKind::Engine)));
}

async fn start_it_again(store: &Store) {
    let row = read(store, &session("a")).await;
    let at = NOON.plus(9 * HOUR);
    let Begun::Done(second) = begin(store, &row, &id("pc"), at).await else { panic!("it is free") };
    assert_eq!((second.generation, second.reopened, second.status), (2, 0, Status::Starting));
    assert_eq!((&second.runner_id, second.attached_at), (&id("pc"), Some(at)));
    assert_eq!(begin(store, &row, &id("pc"), at).await, Begun::LostRace);
    assert_eq!(store.list_unenrolled_runners().await.unwrap(), [id("pc")]);
    assert_eq!(store.jump_generation(&row.id, 2, 4).await.unwrap(), Some(5));

    let stopped = entry(&row, EntryKind::Stopped, at);
    assert_eq!(store.record_stopped(&row.id, 1, &stopped, None).await.unwrap(), Recorded::Done);
    assert_eq!(store.record_stopped(&row.id, 1, &stopped, None).await.unwrap(), Recorded::AlreadyThere);
    assert_eq!(store.record_stopped(&row.id, 5, &stopped, None).await.unwrap(), Recorded::StillOpen);
    assert!(store.has_stopped(&row.id, 1).await.unwrap() && !store.has_stopped(&row.id, 5).await.unwrap());

    let fifth = read(store, &row).await;
    let close = Close {
        session: &fifth,
        at,
        reason: "exited",
        guard: Guard::EngineGone,
        entry: &entry(&fifth, EntryKind::Ended, at),
        item: None,
    };
    assert_eq!(store.close_session(&close).await.unwrap(), Closed::Done);
    assert!(store.has_stopped(&row.id, 5).await.unwrap());
    let kinds: Vec<EntryKind> = store
        .list_timeline(&EntryFilter { session: Some(row.id), ..EntryFilter::default() })
        .await
        .unwrap()
        .into_iter()
        .map(|entry| entry.kind)
        .collect();
    let words: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(
        words,
        ["started", "run_started", "kept", "run_stale", "ended", "reopened", "started", "stopped", "ended"]
    );
}

async fn forget_it(store: &Store) {
    let keep = Keep { ended_ms: 90 * 24 * HOUR, timeline_ms: 365 * 24 * HOUR, sweeps: 1_000 };
    let late = NOON.plus(91 * 24 * HOUR);
    let remembered = [id("a")];
    let protected = Protected { sessions: &remembered, runners: &[] };
    assert_eq!(store.prune(late, &keep, &protected).await.unwrap().sessions, 0);
    assert_eq!(store.prune(late, &keep, &Protected::default()).await.unwrap().sessions, 1);
    assert!(store.list_sessions(&SessionFilter::default()).await.unwrap().is_empty());
    assert!(store.find_run(&id("a"), &id("r")).await.unwrap().is_none());
}
