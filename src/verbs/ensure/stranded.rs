//! A move that was cut short: the engine was stopped for it, and the row closed before it could be moved.

use crate::session::Session;
use crate::store::Begun;
use crate::timeline::{self, Actor, Freed, RELOCATED};
use crate::tools::Tools;
use crate::verbs::ensure::{Conversation, StartWish, launch_or_close};
use crate::verbs::{VerbError, runner_of};

/// Goes on with a move whose row was closed in the middle of it, where that is the newest session there; none when there is
/// no such row, or somebody else was first. The session was not ended by anybody, so it goes on instead of a new one: on the
/// runner that is named, else on its own.
///
/// What must be true before: the row's runner said that the engine is gone (nothing else closes a row with this reason).
///
/// # Errors
/// When that runner is not enrolled, the engine does not start (the row is closed as `start_failed` then), or the store fails.
pub(super) async fn go_on(tools: &Tools, wish: &StartWish, actor: &Actor) -> Result<Option<Session>, VerbError> {
    let newest = tools.store.find_newest_session(&wish.owner, &wish.repo).await?;
    let stranded =
        |row: &Session| !row.is_open() && row.end_reason.as_deref() == Some(RELOCATED) && row.engine == wish.engine;
    let Some(row) = newest.filter(stranded) else { return Ok(None) };
    let (to, now) = (wish.runner.as_ref().unwrap_or(&row.runner_id), tools.clock.now());
    runner_of(tools, to).await?;
    let entry = if row.runner_id == *to {
        timeline::resumed(&row, actor, now)
    } else {
        timeline::relocated((&row, to), &Freed::NotHeld, actor, now)
    };
    match tools.store.begin_and_tell(&row, to, &entry).await? {
        Begun::Done(row) => launch_or_close(tools, &row, Conversation::Wished, actor).await.map(Some),
        Begun::Taken(_) | Begun::LostRace => Ok(None),
    }
}
