//! Opening: what is made, what is refused, and that a refused file is left as it was.

use std::os::unix::fs::PermissionsExt;

use sexton::store::{Store, StoreError};
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tempfile::TempDir;

use crate::support::rows::{insert, new_store, session, url_in};

async fn refusal(url: &str) -> String {
    Store::open(url).await.unwrap_err().to_string()
}

/// Opens the file beside the store, as another program would.
async fn raw(folder: &TempDir) -> SqliteConnection {
    let path = folder.path().join("sexton.db");
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    SqliteConnection::connect_with(&options).await.unwrap()
}

#[tokio::test]
async fn a_new_store_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/sexton/sexton.db");
    let store = Store::open(&format!("sqlite://{}", path.display())).await.unwrap();
    insert(&store, &session("a")).await;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for beside in ["", ".lock", "-wal", "-shm"] {
        assert_eq!(mode(&path.with_file_name(format!("sexton.db{beside}"))), 0o600, "{beside}");
    }
    store.close().await;
}

#[tokio::test]
async fn what_was_written_is_there_after_opening_again() {
    let (folder, store) = new_store().await;
    insert(&store, &session("a")).await;
    store.close().await;
    let store = Store::open(&url_in(&folder)).await.unwrap();
    assert!(store.find_session(&session("a").id).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_may_open_the_same_new_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let url = url_in(&folder);
    let openers = (0..8).map(|_| {
        tokio::spawn({
            let url = url.clone();
            async move { Store::open(&url).await.map(|_| ()) }
        })
    });
    for opener in openers.collect::<Vec<_>>() {
        opener.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn other_urls_are_refused_in_one_sentence() {
    let error = refusal("postgres://db/sexton").await;
    assert!(error.contains("postgres://db/sexton") && error.contains("only SQLite"), "{error}");
    for url in ["sqlite://", "sqlite://:memory:", "sqlite:///"] {
        assert!(refusal(url).await.contains("names no file"), "{url}");
    }
    assert!(refusal("/var/lib/sexton.db").await.contains("only SQLite"));
}

#[tokio::test]
async fn a_password_in_a_url_is_not_repeated() {
    let error = refusal("postgres://sexton:geheim@db/sexton").await;
    assert!(!error.contains("geheim"), "{error}");
}

#[tokio::test]
async fn a_path_that_cannot_be_is_refused_in_one_sentence() {
    let error = refusal("sqlite:///proc/sexton/sexton.db").await;
    assert!(error.contains("/proc/sexton/sexton.db") && error.contains("folder cannot be made"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let error = refusal(&format!("sqlite://{}", folder.path().display())).await;
    assert!(error.contains("it is a folder"), "{error}");
}

#[tokio::test]
async fn a_file_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = raw(&folder).await;
    sqlx::query("CREATE TABLE theirs (x)").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    let before = std::fs::read(folder.path().join("sexton.db")).unwrap();
    assert!(refusal(&url_in(&folder)).await.contains("another program"));
    assert_eq!(std::fs::read(folder.path().join("sexton.db")).unwrap(), before);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sexton.db");
    std::fs::write(&path, "dear diary").unwrap();
    assert!(refusal(&url_in(&folder)).await.contains("no SQLite file"));
    assert_eq!(std::fs::read(&path).unwrap(), b"dear diary");
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused_with_both_versions() {
    let (folder, store) = new_store().await;
    store.close().await;
    let mut newer = raw(&folder).await;
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (99, 'later', 1, x'00', 0)",
    )
    .execute(&mut newer)
    .await
    .unwrap();
    newer.close().await.unwrap();
    let error = refusal(&url_in(&folder)).await;
    assert!(
        error.contains("newer version") && error.contains("99") && error.contains("this version knows up to"),
        "{error}"
    );
}

#[tokio::test]
async fn a_damaged_file_is_refused_by_name() {
    let (folder, store) = new_store().await;
    for number in 0..200 {
        insert(&store, &session(&format!("s{number}"))).await;
    }
    store.close().await;
    let path = folder.path().join("sexton.db");
    let sound = std::fs::read(&path).unwrap();
    for page in [1, 2, 5, sound.len() / 4096 / 2] {
        let mut bytes = sound.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        std::fs::write(&path, &bytes).unwrap();
        let error = Store::open(&url_in(&folder)).await.unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("sexton.db is damaged, so nothing is reaped"), "{error}");
    }
}
