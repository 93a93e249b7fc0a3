//! What is left of an engine whose shim was killed, found by the mark in its environment.
//!
//! Killed are only processes that carry both the mark of this very state folder and the id of the session, and whose
//! number still belongs to the process that was read. One that cleared its environment cannot be found this way.

use std::time::Duration;

use procfs::ProcResult;
use rustix::process::Signal;

use crate::protocol::variable;
use crate::runner::process::{self, Facts};
use crate::session::Id;

/// Kills what is left of the session's engine, until nothing is or `rounds` are over; returns what is left, for people.
///
/// Empty means that the kernel showed every process and none of them carries the marks. A look that failed is no such
/// proof: it leaves a sentence about why.
pub(crate) async fn free(mark: &str, id: &Id, rounds: u32) -> Vec<String> {
    let (mark, id) = (mark.to_owned(), id.clone());
    free_by(move || kill_marked(&mark, &id), rounds).await
}

async fn free_by(look: impl Fn() -> ProcResult<Vec<Facts>> + Clone + Send + 'static, rounds: u32) -> Vec<String> {
    let mut left = vec!["nobody has looked yet".to_owned()];
    for round in 0..rounds {
        if round > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        left = match tokio::task::spawn_blocking(look.clone()).await {
            Ok(Ok(found)) => found.iter().map(described).collect(),
            Ok(Err(error)) => vec![format!("what is left cannot be seen: {error}")],
            Err(error) => vec![format!("what is left cannot be seen: {error}")],
        };
        if left.is_empty() {
            break;
        }
    }
    left
}

fn described(left: &Facts) -> String {
    format!("{} (process {}, state {})", left.name, left.identity.pid, left.state)
}

fn kill_marked(mark: &str, id: &Id) -> ProcResult<Vec<Facts>> {
    let found = process::marked(&[(variable::RUNNER_MARK, mark), (variable::SESSION_ID, id.as_str())])?;
    for one in &found {
        process::signal(one.identity, Signal::KILL, |_| true);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use procfs::ProcError;

    use super::*;

    #[tokio::test]
    async fn a_look_that_failed_proves_nothing() {
        assert_eq!(free_by(|| Ok(Vec::new()), 3).await, Vec::<String>::new());
        let failed = free_by(|| Err(ProcError::Other("no file to spare".to_owned())), 2).await;
        assert!(matches!(failed.as_slice(), [why] if why.contains("no file to spare")), "{failed:?}");
        assert_eq!(free_by(|| panic!("a fault of its own"), 2).await.len(), 1);
        assert_eq!(free_by(|| Ok(Vec::new()), 0).await.len(), 1, "nobody looked");
    }
}
