//! Keeping a session from being reaped, with a reason and an end.

use crate::session::{ActivityKind, Id, Session};
use crate::time::Ms;
use crate::timeline::{self, Actor};
use crate::tools::Tools;
use crate::verbs::{VerbError, find_open, tell};

/// The longest time for which a session can be kept at once: no keep without an end that somebody will see.
const LONGEST_KEEP: Ms = 30 * 24 * crate::time::HOUR;

/// Keeps a session from now on for `time`; a later keep replaces an earlier one. Counts as using the session.
///
/// # Errors
/// When there is no such open session, the time is zero or longer than 30 days, no reason is given, or the
/// store fails.
pub async fn keep(tools: &Tools, id: &Id, time: Ms, because: &str, actor: &Actor) -> Result<Session, VerbError> {
    if time <= 0 || time > LONGEST_KEEP {
        return Err(VerbError::Invalid(
            "a session is kept for more than nothing and at most 30 days at once; ask again to extend".to_owned(),
        ));
    }
    if because.trim().is_empty() {
        return Err(VerbError::Invalid("say why it is to be kept, for whoever reads the timeline".to_owned()));
    }
    let session = find_open(tools, id).await?;
    tell(tools, &session, ActivityKind::Keep).await?;
    let now = tools.clock.now();
    let until = now.plus(time);
    let entry = timeline::kept((&session, until), because, actor, now);
    if !tools.store.keep_and_tell(id, (until, because), now, &entry).await? {
        return Err(VerbError::NotFound(id.clone()));
    }
    find_open(tools, id).await
}
