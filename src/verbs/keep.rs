//! Keeping a session from being reaped, with a reason and an end: as a person wishes, or the session's own engine.

use crate::session::{ActivityKind, Id, Session};
use crate::store::Touch;
use crate::time::Ms;
use crate::timeline::{self, AGENT, Actor};
use crate::tools::Tools;
use crate::verbs::{VerbError, find_open, gone_since, person, tell};

/// The longest time for which a person can keep a session at once: no keep without an end that somebody will see.
const LONGEST_KEEP: Ms = 30 * 24 * crate::time::HOUR;

/// The longest time for which an engine can keep its own session at once: what it forgot is noticed the next day.
const LONGEST_OWN_KEEP: Ms = 24 * crate::time::HOUR;

/// The longest reason, in bytes: it stands in the row, and so in every list.
const LONGEST_REASON: usize = 1_024;

/// Keeps a session from now on for `time`; a later keep replaces an earlier one. Counts as using the session.
///
/// # Errors
/// When there is no such open session, the time is zero or longer than 30 days, no reason is given, or the
/// store fails.
pub async fn keep(tools: &Tools, id: &Id, time: Ms, because: &str, actor: &Actor) -> Result<Session, VerbError> {
    check((time, LONGEST_KEEP, "30 days"), because)?;
    let session = find_open(tools, id).await?;
    tell(tools, &session, ActivityKind::Keep).await?;
    let now = tools.clock.now();
    let until = now.plus(time);
    let entry = timeline::kept((&session, until), because, actor, now);
    if !tools.store.keep_and_tell(id, (until, because), now, &entry).await? {
        return Err(gone_since(tools, id).await);
    }
    find_open(tools, id).await
}

/// Keeps a session as its own engine asks for, which can only move the end forward: where a person keeps it for longer, that
/// stands, and nothing is told. Counts as using the session in any case.
///
/// # Errors
/// As [`keep`], and when the time is longer than 24 hours.
pub async fn keep_own(tools: &Tools, id: &Id, time: Ms, because: &str) -> Result<Session, VerbError> {
    check((time, LONGEST_OWN_KEEP, "24 hours"), because)?;
    let session = find_open(tools, id).await?;
    tell(tools, &session, ActivityKind::Keep).await?;
    let now = tools.clock.now();
    let until = now.plus(time);
    let entry = timeline::kept((&session, until), because, &person(tools, AGENT), now);
    if !tools.store.extend_and_tell(id, (until, because), now, &entry).await? {
        tools.store.write_touches(&[Touch { id: id.clone(), at: now, kind: ActivityKind::Keep }]).await?;
    }
    find_open(tools, id).await
}

fn check((time, longest, shown): (Ms, Ms, &str), because: &str) -> Result<(), VerbError> {
    if time <= 0 || time > longest {
        return Err(VerbError::Invalid(format!(
            "a session is kept for more than nothing and at most {shown} at once; ask again to extend"
        )));
    }
    if because.trim().is_empty() {
        return Err(VerbError::Invalid("say why it is to be kept, for whoever reads the timeline".to_owned()));
    }
    if because.len() > LONGEST_REASON {
        return Err(VerbError::Invalid(format!("say in at most {LONGEST_REASON} bytes why it is to be kept")));
    }
    Ok(())
}
