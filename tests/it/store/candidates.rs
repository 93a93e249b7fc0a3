//! The idle part's lookup, against a plain reading of the same rule over random rows: nobody is missed, nobody twice.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sexton::session::{Id, Session, Status};
use sexton::store::{FUTURE_SLACK_MS, Imported, Store};
use sexton::time::{MINUTE, Ms, UtcMs};

use crate::support::rows::{NOON, id, new_store, session};

const WINDOW: Ms = 60 * MINUTE;

/// A time close to one of the limits, or none.
fn time() -> impl Strategy<Value = Option<UtcMs>> {
    let around = [-WINDOW, -30 * MINUTE, 0, FUTURE_SLACK_MS, 300 * MINUTE];
    proptest::option::of((proptest::sample::select(around.to_vec()), -2..=2_i64))
        .prop_map(|at| at.map(|(base, off)| NOON.plus(base + off)))
}

prop_compose! {
    fn row()(
        last_activity_at in time(), updated_at in time(), started_at in time(), driver_at in time(),
        next_check_at in time(), own in any::<bool>(), ended in prop::bool::weighted(0.2),
    ) -> Session {
        Session {
            last_activity_at, updated_at, started_at, driver_at, next_check_at,
            idle_after_ms: own.then_some(30 * MINUTE),
            status: if ended { Status::Ended } else { Status::Active },
            ..session("x")
        }
    }
}

/// Says plainly whether the idle part has to look at a row.
fn is_candidate(row: &Session) -> bool {
    let ahead = |at: Option<UtcMs>| at.is_some_and(|at| at > NOON.plus(FUTURE_SLACK_MS));
    let unsettled = [row.last_used(), row.updated_at, row.started_at, row.driver_at].into_iter().any(ahead);
    let Some(last) = row.last_used() else { return row.is_open() };
    let due = NOON.since(last) >= row.idle_after_ms.unwrap_or(WINDOW);
    row.is_open() && (unsettled || due && row.next_check_at.is_none_or(|at| at <= NOON))
}

async fn read_all(store: &Store, page: u32) -> Vec<Id> {
    let (mut found, mut after, mut last_due) = (Vec::new(), None, None);
    loop {
        let candidates = store.list_idle_candidates(NOON, WINDOW, after.as_ref(), page).await.unwrap();
        let Some(last) = candidates.last() else { return found };
        after = Some(last.cursor());
        for candidate in candidates {
            if let Some(due) = candidate.due_at {
                assert!(last_due.is_none_or(|last| last <= due), "the longest due comes first");
                last_due = Some(due);
            }
            found.push(candidate.session.id);
        }
    }
}

#[test]
fn the_lookup_finds_each_candidate_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rows = proptest::collection::vec(row(), 1..40);
    let cases = Config { cases: 48, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(cases).run(&(rows, 1..9_u32), |(rows, page)| {
        runtime.block_on(async {
            let (_folder, store) = new_store().await;
            let named = |(number, row): (usize, Session)| Session {
                id: id(&format!("s{number}")),
                repo: format!("/{number}"),
                ..row
            };
            let rows: Vec<Session> = rows.into_iter().enumerate().map(named).collect();
            assert_eq!(store.import_sessions(&rows, "ann", |_| None).await.unwrap(), Imported::Done);
            let found = read_all(&store, page).await;
            let once: BTreeSet<Id> = found.iter().cloned().collect();
            assert_eq!(found.len(), once.len());
            let expected = rows.iter().filter(|row| is_candidate(row)).map(|row| row.id.clone()).collect();
            assert_eq!(once, expected);
        });
        Ok(())
    });
    outcome.unwrap();
}
