//! After a whole pass of the schedule: forget what is old enough, and never what a runner may still hold or remember.

use crate::report::Trigger;
use crate::session::Id;
use crate::store::{Keep, Protected, StoreError};
use crate::sweep::pass::Pass;

/// Forgets a bounded piece of what is older than `[retention]` says; the next passes go on.
///
/// What must be true of an ended row before it is forgotten: its runner answered in this pass with a recognisable set, or
/// is not enrolled any more, and no runner lists it, neither as tracked nor as ended. A failure is harmless and only
/// logged: nothing rests on what is forgotten.
pub(crate) async fn prune(pass: &Pass) {
    let whole = pass.request.trigger == Trigger::Schedule && pass.request.only.is_empty() && !pass.request.dry_run;
    if whole
        && !pass.cancel.is_cancelled()
        && let Err(error) = forget(pass).await
    {
        tracing::warn!(sweep_id = %pass.id, %error, "what is old enough was not forgotten and is tried again");
    }
}

async fn forget(pass: &Pass) -> Result<(), StoreError> {
    let (mut sessions, mut runners): (Vec<Id>, Vec<Id>) = (Vec::new(), Vec::new());
    for (id, post) in &pass.posts {
        let observed = post.latest().await;
        sessions.extend(observed.set.tracked.iter().map(|engine| engine.session_id.clone()));
        sessions.extend(observed.set.ended.iter().map(|ended| ended.session_id.clone()));
        if !observed.is_live() {
            runners.push(id.clone());
        }
    }
    let retention = &pass.config().retention;
    let keep =
        Keep { ended_ms: retention.ended.0, timeline_ms: retention.timeline.0, sweeps: retention.uneventful_sweeps };
    let protected = Protected { sessions: &sessions, runners: &runners };
    let pruned = pass.store().prune(pass.clock().now(), &keep, &protected).await?;
    tracing::debug!(
        sweep_id = %pass.id,
        sessions = pruned.sessions,
        entries = pruned.entries,
        sweeps = pruned.sweeps,
        "forgot what was old enough"
    );
    Ok(())
}
