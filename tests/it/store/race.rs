//! Two processes' worth of pools on one file: nobody fails because of the other, and nothing happens twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use sexton::entry::EntryKind;
use sexton::session::{ActivityKind, Session};
use sexton::store::{Close, Closed, EntryFilter, Guard, Store, Touch};
use sexton::time::{MINUTE, UtcMs};

use crate::support::rows::{NOON, entry, id, insert, item, items, new_store, read, session, url_in};

const SESSIONS: usize = 40;

async fn two_stores() -> (tempfile::TempDir, [Store; 2]) {
    let (folder, first) = new_store().await;
    let second = Store::open(&url_in(&folder)).await.unwrap();
    (folder, [first, second])
}

async fn close(store: &Store, row: &Session, guard: Guard, sweep: &str) -> Closed {
    let ended = entry(row, EntryKind::Ended, NOON.plus(MINUTE));
    let item = item(row, sweep, NOON.plus(MINUTE));
    let close = Close { session: row, at: NOON.plus(MINUTE), reason: "idle", guard, entry: &ended, item: Some(&item) };
    store.close_session(&close).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_writers_close_every_row_exactly_once() {
    let (_folder, stores) = two_stores().await;
    let rows: Vec<Session> = (0..SESSIONS).map(|number| session(&format!("s{number}"))).collect();
    for row in &rows {
        insert(&stores[0], row).await;
    }
    let won = Arc::new(AtomicUsize::new(0));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let (store, rows, won) = (stores[writer % 2].clone(), rows.clone(), Arc::clone(&won));
        writers.spawn(async move {
            for (later, row) in (1..).zip(&rows) {
                let touch = Touch { id: row.id.clone(), at: NOON.plus(later), kind: ActivityKind::Capture };
                store.write_touches(&[touch]).await.unwrap();
                if close(&store, row, Guard::EngineGone, &format!("w{writer}")).await == Closed::Done {
                    won.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    assert_eq!(won.load(Ordering::SeqCst), SESSIONS);
    let entries = stores[1].list_timeline(&EntryFilter::default()).await.unwrap();
    assert_eq!(entries.iter().filter(|entry| entry.kind == EntryKind::Ended).count(), SESSIONS);
    let mut found = 0;
    for writer in 0..8 {
        found += items(&stores[0], &id(&format!("w{writer}"))).await.len();
    }
    assert_eq!(found, SESSIONS, "an item stands with its entry, and only with it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_touch_and_a_close_of_an_unchanged_row_never_both_win() {
    let (_folder, [toucher, closer]) = two_stores().await;
    for number in 0..SESSIONS {
        let row = session(&format!("s{number}"));
        insert(&toucher, &row).await;
        let at = NOON.plus(MINUTE);
        let touching = tokio::spawn({
            let (store, touch) = (toucher.clone(), Touch { id: row.id.clone(), at, kind: ActivityKind::Message });
            async move { store.write_touches(&[touch]).await.unwrap().len() == 1 }
        });
        let closed = close(&closer, &row, Guard::Unchanged, "s").await == Closed::Done;
        assert_ne!(touching.await.unwrap(), closed, "one of them comes first and the other sees it");
        let now = read(&closer, &row).await;
        assert_eq!(now.last_activity_at, Some(if closed { NOON } else { at }));
    }
}

/// Runs a future until it has waited `pauses` times, and drops it in the middle of the next wait.
async fn drop_after(mut pauses: u32, work: impl Future<Output = Closed>) {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Pending if pauses > 0 => {
            pauses -= 1;
            Poll::Pending
        }
        Poll::Ready(_) | Poll::Pending => Poll::Ready(()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_that_is_broken_off_is_whole_or_nothing() {
    let (_folder, [store, other]) = two_stores().await;
    let mut done = 0;
    for number in 0..40 {
        let row = session(&format!("s{number}"));
        insert(&store, &row).await;
        let sweep = format!("w{number}");
        drop_after(number, close(&store, &row, Guard::EngineGone, &sweep)).await;
        let filter = EntryFilter { session: Some(row.id.clone()), ..EntryFilter::default() };
        // Behind the transaction that was broken off, if it still holds the lock.
        other.set_setting("after", &number.to_string()).await.unwrap();
        let entries = other.list_timeline(&filter).await.unwrap().len();
        let items = items(&other, &id(&sweep)).await.len();
        let closed = usize::from(!read(&other, &row).await.is_open());
        assert_eq!((entries, items), (1 + closed, closed));
        done += closed;
    }
    assert!((1..40).contains(&done), "some were broken off, and some were not: {done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crash_is_forgiven_once_however_many_notice() {
    let (_folder, stores) = two_stores().await;
    let row = session("a");
    insert(&stores[0], &row).await;
    stores[0].beat(&id("dead"), NOON).await.unwrap();
    let now = NOON.plus(10 * MINUTE);
    let mut noticing = tokio::task::JoinSet::new();
    for process in 0..8 {
        let store = stores[process % 2].clone();
        noticing.spawn(async move { store.forgive_crashes(now, MINUTE, MINUTE).await.unwrap() });
    }
    let moved: u64 = noticing.join_all().await.into_iter().sum();
    assert_eq!(moved, 1);
    assert_eq!(read(&stores[0], &row).await.last_activity_at, Some(UtcMs(NOON.0 + MINUTE)));
}
