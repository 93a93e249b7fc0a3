//! What runners say right now, asked side by side, read-only, and within the client's limits of time.

use std::collections::BTreeMap;

use futures_util::StreamExt;

use crate::connectivity::{Classified, classify};
use crate::protocol::tracked::TrackedSet;
use crate::report::RunnerState;
use crate::runner_client::Target;
use crate::session::{Id, Runner};
use crate::tools::Tools;

/// How one runner answered.
#[derive(Debug)]
pub(crate) struct Live {
    /// How it stands.
    pub(crate) state: RunnerState,
    /// Why, when it is not live.
    pub(crate) why: Option<String>,
    /// What it holds; empty when it is not live.
    pub(crate) set: TrackedSet,
}

/// Asks each of the runners for its tracked set, and remembers nothing of the answers.
pub(crate) async fn ask_all(tools: &Tools, runners: &[Runner]) -> BTreeMap<Id, Live> {
    let asked = futures_util::stream::iter(runners).map(|runner| async move {
        let observation = tools.runners.tracked(&Target::from(runner)).await;
        let Classified { state, why, set, .. } = classify(observation);
        (runner.id.clone(), Live { state, why, set })
    });
    asked.buffer_unordered(tools.config().limits.runners_at_once as usize).collect().await
}
