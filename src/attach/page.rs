//! A page of what a session's engine has said, from its runner.

use crate::protocol::{Cursor, HistoryAnswer, HistoryRequest};
use crate::runner_client::OutputReply;
use crate::session::Session;
use crate::tools::Tools;
use crate::verbs::{VerbError, runner_of};

/// Which lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// Those behind a cursor, from the oldest that is kept on where there is none; at most so many.
    After(Option<Cursor>, u32),
    /// The newest so many.
    Newest(u32),
}

/// Asks a session's runner for a page; none when it keeps nothing of the session.
///
/// # Errors
/// When the runner is not enrolled, does not answer or does not serve this, no line of that output ends at the cursor, or
/// the store fails.
pub async fn page(tools: &Tools, session: &Session, piece: Piece) -> Result<Option<HistoryAnswer>, VerbError> {
    let runner = &session.runner_id;
    let target = runner_of(tools, runner).await?;
    let (after, limit, tail) = match piece {
        Piece::After(after, limit) => (after, Some(limit), None),
        Piece::Newest(lines) => (None, None, Some(lines)),
    };
    let (session_id, owner_id) = (session.id.clone(), session.owner_id.clone());
    let request = HistoryRequest { session_id, after, limit, tail, owner_id };
    match tools.runners.history(&target, &request).await {
        Ok(OutputReply::There(page)) => Ok(Some(page)),
        Ok(OutputReply::NotTracked | OutputReply::Ended { .. }) => Ok(None),
        Ok(OutputReply::BadCursor(why)) => Err(VerbError::Invalid(why)),
        Ok(OutputReply::Refused { message, .. }) => Err(VerbError::Runner(format!("runner {runner}: {message}"))),
        Ok(OutputReply::Unsupported) => Err(VerbError::Runner(format!("runner {runner} tells no output"))),
        Err(why) => Err(VerbError::Runner(format!("runner {runner} does not tell the output: {why}"))),
    }
}
