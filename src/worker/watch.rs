//! Saying once when something changes that holds for many passes: a runner that is lost or back, a reaper that is paused.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::report::{RunnerState, SweepReport};
use crate::session::Id;
use crate::telemetry::field;

/// What the last pass saw.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    runners: BTreeMap<Id, RunnerState>,
    paused: bool,
}

impl Watch {
    /// Compares a pass with the last one, and logs what is different.
    pub(super) fn look(&self, report: &SweepReport) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for runner in &report.runners {
            let before = seen.runners.insert(runner.runner_id.clone(), runner.state);
            let id = &runner.runner_id;
            match (before, runner.state) {
                (Some(before), now) if before == now => {}
                (None, RunnerState::Live) => {}
                (Some(_), RunnerState::Live) => tracing::info!({ field::RUNNER_ID } = %id, "runner {id} is live again"),
                (_, state) => {
                    let why = runner.why.as_deref().unwrap_or("it did not say why");
                    tracing::warn!({ field::RUNNER_ID } = %id, "runner {id} is {state}, and its sessions are kept: {why}");
                }
            }
        }
        if std::mem::replace(&mut seen.paused, report.paused) != report.paused {
            match report.paused {
                true => tracing::warn!("the reaper is paused: passes act on nothing until `sexton resume`"),
                false => tracing::info!("the reaper acts again"),
            }
        }
    }
}
