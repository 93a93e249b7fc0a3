//! Attaching a session again whose engine is gone: its next start, on the same runner, with its conversation.

use crate::session::Session;
use crate::store::Begun;
use crate::timeline::{self, Actor};
use crate::tools::Tools;
use crate::verbs::VerbError;
use crate::verbs::ensure::launch_or_close;

/// Starts the engine of an open row anew on its runner; none when somebody else began first, or the row has ended.
///
/// What must be true before: the runner of this row, ready, said of this generation that it holds no engine for it and
/// remembers no end. Of any number of callers one begins the next generation, since the store compares it with what was
/// read; and the runner starts at most one engine for it.
///
/// # Errors
/// When the engine does not start (the row is closed as `start_failed` then, and keeps the engine's own id), or the store
/// fails.
pub(in crate::verbs) async fn reattach(
    tools: &Tools,
    open: &Session,
    actor: &Actor,
) -> Result<Option<Session>, VerbError> {
    let entry = timeline::attached_again(open, actor, tools.clock.now());
    match tools.store.begin_and_tell(open, &open.runner_id, &entry).await? {
        Begun::Done(row) => Ok(Some(launch_or_close(tools, &row, actor).await?)),
        Begun::Taken(_) | Begun::LostRace => Ok(None),
    }
}
