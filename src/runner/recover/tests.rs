//! Runners that cannot read what an earlier life left.

use std::path::Path;

use super::*;
use crate::protocol::ListRequest;
use crate::runner::Settings;

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Puts something in the place of `folder` that nobody can read as one, and returns where it is kept meanwhile.
fn hide(folder: &Path) -> PathBuf {
    let aside = folder.with_extension("aside");
    std::fs::rename(folder, &aside).unwrap();
    std::fs::write(folder, "no folder").unwrap();
    aside
}

#[tokio::test]
async fn a_folder_of_sessions_that_cannot_be_read_is_not_an_empty_one() {
    let home = tempfile::tempdir().unwrap();
    let runner = Runner::open(Settings::in_home(home.path())).unwrap();
    let sessions = runner.dir().sessions();
    let aside = hide(&sessions);
    std::fs::create_dir(aside.join("s1")).unwrap();
    std::fs::write(aside.join("s1/start.3.json"), "damaged").unwrap();
    let shutdown = CancellationToken::new();
    let recovering = tokio::spawn({
        let (runner, shutdown) = (runner.clone(), shutdown.clone());
        async move { runner.recover(&shutdown).await }
    });
    until(|| !runner.damaged().is_empty()).await;
    assert!(!runner.is_ready());
    assert!(runner.damaged().iter().all(|sentence| sentence.starts_with(&sessions.display().to_string())));
    assert!(!runner.list(ListRequest::default()).await.complete);

    std::fs::remove_file(&sessions).unwrap();
    std::fs::rename(&aside, &sessions).unwrap();
    recovering.await.unwrap();
    assert!(runner.is_ready());
    until(|| runner.known().records.get(&"s1".parse().unwrap(), 3).is_some()).await;
}

#[tokio::test]
async fn a_runner_that_never_became_ready_still_stops() {
    let home = tempfile::tempdir().unwrap();
    let runner = Runner::open(Settings::in_home(home.path())).unwrap();
    hide(&runner.dir().sessions());
    let shutdown = CancellationToken::new();
    shutdown.cancel();
    runner.recover(&shutdown).await;
    assert!(!runner.is_ready());
}

#[test]
fn a_folder_that_cannot_be_read_is_not_one_without_a_start() {
    let home = tempfile::tempdir().unwrap();
    assert!(intents::read_start(home.path()).unwrap().is_none());
    assert!(intents::read_start(&home.path().join("nowhere")).is_err());
}
