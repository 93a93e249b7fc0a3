//! Opening a session again that was closed since its machine was gone, when the machine is back with its engine.

use crate::protocol::TouchRequest;
use crate::runner_client::{SessionReply, Target};
use crate::session::ActivityKind;
use crate::store::Reopened;
use crate::timeline::{self, Actor};
use crate::tools::Tools;
use crate::verbs::VerbError;
use crate::verbs::ensure::StartWish;

/// Opens the newest session again that was closed as `machine_gone` there, if its runner still holds its engine; returns
/// whether there is an open session now.
///
/// The runner is asked by a touch on the owner's behalf, which is a use: no stray is stopped in between. Whatever it says
/// but that it took the touch changes nothing.
///
/// # Errors
/// When the store fails.
pub(super) async fn reopen(tools: &Tools, wish: &StartWish, actor: &Actor) -> Result<bool, VerbError> {
    let gone = tools.store.find_newest_gone(Some(&wish.owner), &wish.repo).await?;
    let Some(gone) = gone.filter(|row| row.engine == wish.engine) else { return Ok(false) };
    let Some(runner) = tools.store.find_runner(&gone.runner_id).await? else { return Ok(false) };
    let request = TouchRequest {
        session_id: gone.id.clone(),
        generation: gone.generation,
        kind: ActivityKind::Start,
        owner_id: Some(wish.owner.clone()),
    };
    let Ok(SessionReply::Done(_)) = tools.runners.touch(&Target::from(&runner), &request).await else {
        return Ok(false);
    };
    let now = tools.clock.now();
    let entry = timeline::returned(&gone, actor, now);
    let reopened = tools.store.reopen_session(&gone, now, &entry, None).await?;
    Ok(matches!(reopened, Reopened::Done | Reopened::Taken))
}
