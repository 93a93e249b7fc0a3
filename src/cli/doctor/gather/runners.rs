//! What the enrolled runners say, and which processes of this machine are theirs.

use std::os::unix::fs::PermissionsExt;

use crate::cli::doctor::checks::runners::RunnerFacts;
use crate::cli::live::{Live, ask_all};
use crate::protocol::Health;
use crate::report::RunnerState;
use crate::runner_client::Target;
use crate::session::Id;
use crate::tools::Tools;

/// The processes of a runner that is on this machine, by their ids: its own, and those of its engines.
pub(super) type Processes = (Id, Vec<i64>);

/// Asks every enrolled runner.
pub(super) async fn ask(tools: &Tools) -> (Vec<RunnerFacts>, Vec<Processes>) {
    // A store that fails now has been told of already.
    let runners = tools.store.list_runners().await.unwrap_or_default();
    let mut live = ask_all(tools, &runners).await;
    let (mut facts, mut processes) = (Vec::new(), Vec::new());
    for runner in runners {
        let Some(answer) = live.remove(&runner.id) else { continue };
        // Whoever did not answer one question is not asked another.
        let answers = matches!(answer.state, RunnerState::Live | RunnerState::Unrecognised);
        let health = if answers { tools.runners.health(&Target::from(&runner)).await.ok() } else { None };
        if is_here(&runner.url) {
            processes.push((runner.id.clone(), pids(&answer, health.as_ref())));
        }
        facts.push(RunnerFacts {
            secret: runner.token_file.as_deref().and_then(secret_fault),
            id: runner.id,
            url: runner.url,
            state: answer.state,
            why: answer.why,
            engines: answer.set.tracked.len(),
            health,
        });
    }
    (facts, processes)
}

fn pids(answer: &Live, health: Option<&Health>) -> Vec<i64> {
    let own = health.and_then(|health| health.pid).map(i64::from);
    let engines = answer.set.tracked.iter().filter_map(|engine| engine.pid);
    own.into_iter().chain(engines).collect()
}

fn is_here(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    ["127.", "[::1]", "localhost"].iter().any(|here| host.starts_with(here))
}

/// Says what is wrong with the file of a secret; one that is not there shows in how the runner answers.
fn secret_fault(file: &str) -> Option<String> {
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    (mode & 0o077 != 0).then(|| format!("lies in {file}, which others may read or write: `chmod 600 {file}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_here() {
        for here in ["http://127.0.0.1:7118", "http://[::1]:7118/", "http://localhost"] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in ["http://10.0.0.1", "https://example.org:127", ""] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn a_secret_that_others_may_read_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t").display().to_string();
        assert_eq!(secret_fault(&file), None);
        std::fs::write(&file, "x").unwrap();
        for (mode, fault) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o602, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(secret_fault(&file).is_some(), fault, "{mode:o}");
        }
    }
}
