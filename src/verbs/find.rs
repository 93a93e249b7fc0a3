//! Finding a session by the engine's own id of its conversation, also before any row says it.

use futures_util::StreamExt;

use crate::protocol::{FindAnswer, FindRequest};
use crate::runner_client::Target;
use crate::session::{Runner, Session};
use crate::tools::Tools;
use crate::verbs::VerbError;

/// Finds the session of an engine's own id; none when there is none, or not of that owner.
///
/// `owner` is on whose behalf, none for whoever may see all; `legacy_owner` is whose the rows without an owner are.
///
/// The store is asked first. A row learns the id only when somebody looks at its engine, but the engine's runner knows it
/// from the first event on: where no row says it, every runner is asked side by side, and the row is told.
///
/// # Errors
/// When the store fails. A runner that does not answer is one that knows nothing of it.
pub async fn find_by_engine_id(
    tools: &Tools,
    owner: Option<&str>,
    legacy_owner: &str,
    engine_session_id: &str,
) -> Result<Option<Session>, VerbError> {
    let mine = owner.map(|owner| (owner, owner == legacy_owner));
    if let Some(session) = tools.store.find_engine_session(engine_session_id, mine).await? {
        return Ok(Some(session));
    }
    // Engines without an owner are the configured one's, so a runner must not leave them out for that one.
    let owner_id = owner.filter(|owner| *owner != legacy_owner).map(str::to_owned);
    let request = FindRequest { engine_session_id: engine_session_id.to_owned(), owner_id };
    for answer in ask_all(tools, &request).await? {
        let row = tools.store.find_session(&answer.session_id).await?;
        let owns = |row: &Session| owner.is_none_or(|owner| row.owner_id.as_deref().unwrap_or(legacy_owner) == owner);
        if let Some(row) = row.filter(owns) {
            tools.store.set_engine_session_id(&row.id, answer.generation, engine_session_id).await?;
            return Ok(tools.store.find_session(&row.id).await?);
        }
    }
    Ok(None)
}

/// Asks every runner; those whose engine is still there come first.
async fn ask_all(tools: &Tools, request: &FindRequest) -> Result<Vec<FindAnswer>, VerbError> {
    let runners: Vec<Runner> = tools.store.list_runners().await?;
    let asked = futures_util::stream::iter(runners).map(|runner| async move {
        match tools.runners.find(&Target::from(&runner), request).await {
            Ok(found) => found,
            Err(why) => {
                tracing::debug!(runner_id = %runner.id, %why, "a runner was not asked for a conversation");
                None
            }
        }
    });
    let at_once = tools.config().limits.runners_at_once as usize;
    let mut found: Vec<FindAnswer> = asked.buffer_unordered(at_once).filter_map(std::future::ready).collect().await;
    found.sort_by_key(|answer| !answer.tracked);
    Ok(found)
}
