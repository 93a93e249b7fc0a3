//! How far an engine's life has come: who marks it, and who waits for it.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::Ended;
use crate::runner::engine::{Ending, Engine, Facts};
use crate::runner::process::Identity;
use crate::runner::shim::wire::{Containment, Hello};

/// How far an engine's life has come, for those who wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its shim is on the way.
    Starting,
    /// It runs.
    Running,
    /// It is being stopped, or left by itself; something of it may be left.
    Ending,
    /// Nothing of it is left, and the record of its end is on disk.
    Gone(Arc<Ended>),
}

impl Engine {
    /// Marks it as running.
    pub(crate) fn runs(&self, process: Identity, shim: Identity, containment: Containment) {
        let mut facts = self.facts();
        (facts.process, facts.shim) = (Some(process), Some(shim));
        facts.containment = containment;
        if facts.ending.is_none() {
            self.stage.send_replace(Stage::Running);
        }
    }

    /// Marks it as running under a shim that an earlier life of the runner had started.
    pub(crate) fn known_to_run(&self, hello: &Hello) {
        if let Some(engine) = hello.engine {
            self.runs(engine, hello.shim, hello.containment);
        }
    }

    /// Marks it as there, though its shim does not answer.
    pub(crate) fn is_unreached(&self) {
        self.stage.send_replace(Stage::Running);
    }

    /// Marks it as ending, under the lock that the caller holds, unless it is already.
    pub(crate) fn begin_end(&self, facts: &mut Facts, ending: Ending) -> bool {
        if facts.ending.is_some() {
            return false;
        }
        facts.ending = Some(ending);
        self.stage.send_replace(Stage::Ending);
        true
    }

    /// Marks it as gone: the record is on disk.
    pub(crate) fn is_gone(&self, ended: Ended) {
        self.stage.send_replace(Stage::Gone(Arc::new(ended)));
    }

    /// Waits until its start has come to something.
    pub(crate) async fn started(&self) {
        let mut stage = self.stage.subscribe();
        let _ = stage.wait_for(|stage| *stage != Stage::Starting).await;
    }

    /// Waits until messages can be written to it, or never will be, or it is ending.
    pub(crate) async fn can_be_told(&self) {
        let mut told = self.told.subscribe();
        let ready = async {
            while !self.facts().is_decided() {
                if told.changed().await.is_err() {
                    break;
                }
            }
        };
        tokio::select! {
            () = ready => {}
            () = self.ends() => {}
        }
    }

    /// Waits until all that it has said was read, but no longer than `most`: one that never stops talking is never read
    /// to its end.
    pub(crate) async fn is_read(&self, most: Duration) {
        let mut read = self.read.subscribe();
        let all = async {
            while self.facts().behind {
                if read.changed().await.is_err() {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(most, all).await;
    }

    /// Waits until it is ending or gone.
    pub(crate) async fn ends(&self) {
        let mut stage = self.stage.subscribe();
        let _ = stage.wait_for(|stage| matches!(stage, Stage::Ending | Stage::Gone(_))).await;
    }

    /// Waits until nothing of it is left and its record is on disk.
    pub(crate) async fn gone(&self) -> Option<Arc<Ended>> {
        let mut stage = self.stage.subscribe();
        let stage = stage.wait_for(|stage| matches!(stage, Stage::Gone(_))).await.ok()?;
        match &*stage {
            Stage::Gone(ended) => Some(Arc::clone(ended)),
            Stage::Starting | Stage::Running | Stage::Ending => None,
        }
    }
}
