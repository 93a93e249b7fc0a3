//! What the runner does of its own accord, again and again: asks engines that tell their state only when asked, notices
//! turns that stall, and stops idle engines where no worker does.
//!
//! Nothing here is a timer that is armed once: each round looks at how old things are, so a restart, a sleep of the
//! machine or a missed round changes nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::runner::Runner;
use crate::runner::engine::{Engine, Errand};

/// How long a note may take at the end of this process.
const NOTE_WITHIN: Duration = Duration::from_secs(1);

impl Runner {
    /// Looks after the engines until `shutdown`.
    pub(crate) async fn watch(&self, shutdown: &CancellationToken) {
        let pause = Duration::from_millis(u64::try_from(self.settings().heartbeat).unwrap_or(1));
        while !shutdown.is_cancelled() {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(pause) => self.look_after_all().await,
            }
        }
    }

    async fn look_after_all(&self) {
        if !self.is_ready() {
            return;
        }
        if let Err(error) = self.shared.heard.save().await {
            tracing::warn!(%error, "the time of the last call cannot be written down");
        }
        let sessions: Vec<_> = self.known().sessions.values().cloned().collect();
        for session in &sessions {
            // What waits is being worked off, and people's messages come first; the next round asks again.
            if session.errands.capacity() == session.errands.max_capacity() {
                let _ = session.errands.try_send(Errand::Ask);
            }
            self.notice_stall(session);
            self.stop_if_unattended(session).await;
        }
    }

    /// Says so when a turn has stalled, and interrupts it where that is wanted: once for each time that it fell silent.
    ///
    /// What must be true for the interruption: the configuration asks for it, and the turn has been silent for
    /// `stall_after` without waiting for a person. It ends a turn, never a session. That it was done is on its way to
    /// the shim before it is done, so that no later life of the runner does it again.
    fn notice_stall(&self, session: &Engine) {
        let stall_after = self.settings().stall_after;
        {
            let mut facts = session.facts();
            let silent = facts.doings.turn_silent(self.settings().clock.awake());
            let stalled = facts.ending.is_none() && silent.is_some_and(|silent| silent >= stall_after);
            if !stalled || facts.stall_answered {
                facts.stall_answered &= stalled;
                return;
            }
            facts.stall_answered = true;
        }
        tracing::warn!(session_id = %session.id, stall_after_ms = stall_after, "a turn has stalled");
        let (kept, interrupted) = (oneshot::channel().0, oneshot::channel().0);
        let noted = session.errands.try_send(Errand::Keep { told: kept }).is_ok();
        if self.settings().interrupt_stalled {
            let handed = noted && session.errands.try_send(Errand::Interrupt { told: interrupted }).is_ok();
            // The next round tries again what found no place.
            session.facts().stall_answered &= handed;
        }
    }

    async fn stop_if_unattended(&self, session: &Arc<Engine>) {
        let Some(idle_after) = self.settings().idle_after else { return };
        if self.shared.heard.ago(self.settings().clock.awake()) < idle_after {
            return;
        }
        if let Some(reason) = self.end_of_own_accord(session, self.settings().limits).await {
            tracing::info!(session_id = %session.id, %reason, "no worker was heard for long; an idle engine is stopped");
        }
    }

    /// Takes note that somebody who may has asked for something.
    pub(crate) fn hears(&self) {
        self.shared.heard.now(self.settings().clock.awake());
    }

    /// Has every shim keep what is known about its engine, before this process goes.
    pub(crate) async fn keep_notes(&self) {
        let sessions: Vec<_> = self.known().sessions.values().cloned().collect();
        let keeping = sessions.iter().map(|session| session.keep());
        let _ = tokio::time::timeout(NOTE_WITHIN, futures_util::future::join_all(keeping)).await;
    }
}

impl Engine {
    /// Has the shim keep what is known about the engine; returns once it is on its way, which survives this process.
    pub(crate) async fn keep(&self) {
        let (told, kept) = oneshot::channel();
        if self.errands.send(Errand::Keep { told }).await.is_ok() {
            let _ = kept.await;
        }
    }
}
