//! What an engine gets so that it can keep its own session: a token that can do nothing else, and where the API is. It
//! lapses when the session ends, or has another engine.

use std::collections::BTreeMap;

use crate::protocol::variable;
use crate::session::Session;
use crate::token;
use crate::tools::Tools;
use crate::verbs::VerbError;

/// Returns the variables for the engine of this start of a session. Only the hash of the token is kept here; the engine's
/// environment is the one place where the token itself stands.
///
/// Nothing where nobody can tell beforehand where the API will be.
///
/// # Errors
/// When the system gives no random bits, or the store fails.
pub(super) async fn environment(tools: &Tools, session: &Session) -> Result<BTreeMap<String, String>, VerbError> {
    let Some(url) = tools.config().server.api_url() else { return Ok(BTreeMap::new()) };
    let made = token::create_lease(session, tools.clock.now());
    let (row, secret) = made.map_err(|why| VerbError::Conflict(format!("the engine gets no token: {why}")))?;
    tools.store.insert_token(&row).await?;
    Ok(BTreeMap::from([(variable::TOKEN.to_owned(), secret.expose().to_owned()), (variable::URL.to_owned(), url)]))
}
