//! What is left of an engine whose shim was killed, found by the mark in its environment.
//!
//! Killed are only processes that carry both the mark of this very state folder and the id of the session, and whose
//! number still belongs to the process that was read. One that cleared its environment cannot be found this way.

use std::time::Duration;

use rustix::process::Signal;

use crate::runner::process::{self, Facts};
use crate::session::Id;

/// The variable that holds the session's id.
pub(crate) const SESSION: &str = "SEXTON_SESSION_ID";
/// The variable that holds the runner's id, for people and programs.
pub(crate) const RUNNER: &str = "SEXTON_RUNNER_ID";
/// The variable that holds the mark of the runner's state folder.
pub(crate) const MARK: &str = "SEXTON_RUNNER_MARK";

/// Kills what is left of the session's engine, until nothing is or `rounds` are over; returns what is left, for people.
pub(crate) async fn free(mark: &str, id: &Id, rounds: u32) -> Vec<String> {
    let mut left = Vec::new();
    for round in 0..rounds {
        if round > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (mark, id) = (mark.to_owned(), id.clone());
        left = tokio::task::spawn_blocking(move || kill_marked(&mark, &id)).await.unwrap_or_default();
        if left.is_empty() {
            break;
        }
    }
    left.iter().map(|it| format!("{} (process {}, state {})", it.name, it.identity.pid, it.state)).collect()
}

fn kill_marked(mark: &str, id: &Id) -> Vec<Facts> {
    let found = process::marked(&[(MARK, mark), (SESSION, id.as_str())]);
    for one in &found {
        process::signal(one.identity, Signal::KILL, |_| true);
    }
    found
}
