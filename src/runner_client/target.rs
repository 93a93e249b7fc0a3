//! Whom a question goes to, and what is remembered of it that its answer must fit.

use crate::protocol::Origin;
use crate::protocol::tracked::{Expected, TrackedSet};
use crate::runner_client::NoAnswer;
use crate::session::{Id, Runner};

/// A runner to ask: where it is and what it has shown of itself so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name it was enrolled under.
    pub id: Id,
    /// Its base URL.
    pub url: String,
    /// The file that holds its secret; none sends no secret.
    pub token_file: Option<String>,
    /// The identity that its answers must show; none accepts any.
    pub identity: Option<String>,
    /// The state folder that its tracked sets must not contradict; none accepts any.
    pub state_id: Option<String>,
    /// The highest epoch that it has shown.
    pub epoch: Option<i64>,
    /// It has spoken the protocol: a bare answer is none.
    pub speaks_protocol: bool,
}

impl From<&Runner> for Target {
    fn from(runner: &Runner) -> Self {
        Self {
            id: runner.id.clone(),
            url: runner.url.clone(),
            token_file: runner.token_file.clone(),
            identity: runner.identity.clone(),
            state_id: runner.state_id.clone(),
            epoch: runner.epoch,
            speaks_protocol: runner.protocol.is_some(),
        }
    }
}

impl Target {
    /// Returns what an answer to a question with this `ask` must fit.
    #[must_use]
    pub fn expected(&self, ask: &str) -> Expected {
        Expected {
            ask: ask.to_owned(),
            runner_id: self.identity.clone(),
            state_id: self.state_id.clone(),
            epoch: self.epoch,
            speaks_protocol: self.speaks_protocol,
        }
    }

    /// Returns the same runner with what it showed in `set`, so that further answers in this pass must fit that.
    #[must_use]
    pub fn seen(&self, set: &TrackedSet) -> Self {
        Self {
            identity: set.runner_id.clone().or_else(|| self.identity.clone()),
            state_id: set.state_id.clone().or_else(|| self.state_id.clone()),
            epoch: set.epoch.max(self.epoch),
            speaks_protocol: self.speaks_protocol || set.protocol.is_some(),
            ..self.clone()
        }
    }

    /// Checks that an answer comes from this runner, in no older state than it has been seen in.
    pub(super) fn check(&self, origin: &Origin) -> Result<(), NoAnswer> {
        if let Some(identity) = &self.identity
            && origin.runner_id.as_str() != identity
        {
            return Err(NoAnswer::Unknown(format!(
                "the runner that answers calls itself {:?}, not {identity:?}",
                origin.runner_id.as_str()
            )));
        }
        match self.epoch {
            Some(highest) if origin.epoch < highest => Err(NoAnswer::Unknown(format!(
                "the runner is at epoch {} and has been at {highest}: its state folder was lost or restored",
                origin.epoch
            ))),
            _ => Ok(()),
        }
    }
}
