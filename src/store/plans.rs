//! Asks SQLite how it would run the statements of a sweep: by index, never through the whole table.

use crate::store::{
    Store, activity, candidates, deliveries, due_soon, events, retention, runs, sessions, starts, timeline, webhooks,
    workers,
};

async fn plan(store: &Store, statement: &'static str) -> String {
    let text = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let rows: Vec<(i64, i64, i64, String)> = sqlx::query_as(text).fetch_all(store.reader()).await.unwrap();
    rows.into_iter().map(|(_, _, _, detail)| detail).collect::<Vec<_>>().join("\n")
}

/// Each statement, and an index that it must use.
const LOOKUPS: [(&str, &str); 32] = [
    (sessions::BY_ENGINE_SESSION, "sessions_by_engine_session"),
    (candidates::RULE_WINDOW, "sessions_last_used"),
    (candidates::OWN_WINDOW, "sessions_own_due"),
    (candidates::UNSETTLED, "sessions_last_used"),
    (candidates::UNSETTLED, "sessions_latest_stamp"),
    (candidates::STARTING, "sessions_starting"),
    (candidates::COUNT_OPEN, "sessions_open_by_runner"),
    (candidates::UNTRACKED, "sessions_open_by_runner"),
    (candidates::MISMATCHED, "sqlite_autoindex_sessions_1"),
    (candidates::UNENROLLED, "sessions_open_by_runner"),
    (runs::STALE, "runs_running"),
    (activity::WRITE_TOUCHES, "sqlite_autoindex_sessions_1"),
    (activity::NOTE_ENGINE_WORK, "sqlite_autoindex_sessions_1"),
    (starts::NEWEST, "sessions_by_owner"),
    (starts::NEW_ENGINE_IDS, "sqlite_autoindex_sessions_1"),
    (starts::NOTE_ENGINE_ID, "sessions_by_engine_session"),
    (workers::MOVE_FORWARD, "sessions_last_used"),
    (retention::OLD_SESSIONS, "sessions_ended_at"),
    (retention::OLD_ENTRIES, "timeline_by_time"),
    (retention::OLD_DELIVERIES, "deliveries_by_time"),
    (timeline::INSERT, "timeline_by_seq"),
    (events::HEAD, "timeline_by_seq"),
    (events::HEAD, "sqlite_autoindex_settings_1"),
    (events::EVENT, "timeline_by_seq"),
    (webhooks::MATCHING, "timeline_by_seq"),
    (deliveries::DUE, "deliveries_due"),
    (deliveries::DUE, "deliveries_by_session"),
    (deliveries::GIVE_UP_OVERDUE, "deliveries_due"),
    (deliveries::RETRY_UNREACHED, "deliveries_due"),
    (deliveries::COUNTS, "deliveries_by_status"),
    (due_soon::RULE_WINDOW, "sessions_last_used"),
    (due_soon::OWN_WINDOW, "sessions_own_due"),
];

#[tokio::test]
async fn no_lookup_of_a_sweep_scans_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&format!("sqlite://{}/s.db", folder.path().display())).await.unwrap();
    for (statement, index) in LOOKUPS {
        let plan = plan(&store, statement).await;
        assert!(plan.contains(index), "{statement}\n{plan}");
        for table in ["sessions", "runs", "timeline", "deliveries"] {
            assert!(!plan.contains(&format!("SCAN {table}")), "{statement}\n{plan}");
        }
    }
    let ordered = [
        candidates::RULE_WINDOW,
        candidates::OWN_WINDOW,
        due_soon::RULE_WINDOW,
        due_soon::OWN_WINDOW,
        runs::STALE,
        webhooks::MATCHING,
    ];
    for statement in ordered {
        let plan = plan(&store, statement).await;
        assert!(!plan.contains("TEMP B-TREE"), "the index gives the order: {plan}");
    }
}
