//! On which runner a new session is opened.

use crate::session::Id;
use crate::tools::Tools;
use crate::verbs::ensure::StartWish;
use crate::verbs::{VerbError, runner_of};

/// Returns the runner that a wish means where nothing is open: the one that it names, else the one of this machine where
/// that is enrolled, else the only one.
///
/// # Errors
/// When the runner that is named is not enrolled, none is, there is no telling which of several, or the store fails.
pub(super) async fn choose(tools: &Tools, wish: &StartWish) -> Result<Id, VerbError> {
    if let Some(named) = &wish.runner {
        return runner_of(tools, named).await.map(|target| target.id);
    }
    let mut runners: Vec<Id> = tools.store.list_runners().await?.into_iter().map(|runner| runner.id).collect();
    let here = &tools.config().runner.id;
    if runners.contains(here) {
        return Ok(here.clone());
    }
    match (runners.pop(), runners.is_empty()) {
        (None, _) => {
            Err(VerbError::Invalid("no runner is enrolled; `sexton runners add ID URL` enrols one".to_owned()))
        }
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            let ids: Vec<&str> = runners.iter().chain([&last]).map(Id::as_str).collect();
            Err(VerbError::Invalid(format!("name the runner, one of {}", ids.join(", "))))
        }
    }
}
