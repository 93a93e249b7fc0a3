//! The row of a new session, and which wishes make sense.

use crate::session::{ActivityKind, Id, Session, Status};
use crate::time::{HOUR, Ms, SECOND, UtcMs, compact};
use crate::tools::Tools;
use crate::verbs::VerbError;
use crate::verbs::ensure::StartWish;

/// The longest path of a repo.
const LONGEST_REPO: usize = 4_096;

/// The longest idle window: runners refuse a longer one.
const LONGEST_WINDOW: Ms = 10 * 365 * 24 * HOUR;

/// Writes the path of a repo in the one way in which rows have it: without empty and "." parts, and no slash at its end.
/// What links point to only the runner's machine knows.
#[must_use]
pub fn tidy_repo(repo: &str) -> String {
    if !repo.starts_with('/') {
        return repo.to_owned();
    }
    let parts = repo.split('/').filter(|part| !part.is_empty() && *part != ".");
    let tidy = parts.fold(String::new(), |path, part| path + "/" + part);
    if tidy.is_empty() { "/".to_owned() } else { tidy }
}

/// Refuses a wish that makes no sense.
pub(super) fn check(wish: &StartWish, tools: &Tools) -> Result<(), VerbError> {
    let invalid = |why: &str| Err(VerbError::Invalid(why.to_owned()));
    let repo = &wish.repo;
    if !repo.starts_with('/') || repo.len() > LONGEST_REPO || repo.chars().any(char::is_control) {
        return invalid("repo must be an absolute path without control characters");
    }
    if repo.split('/').any(|part| part == "..") {
        return invalid("repo must not contain \"..\": name the folder itself");
    }
    if wish.force && wish.runner.is_none() {
        return invalid("force moves a session to another runner; name the runner");
    }
    wish.idle_after.map_or(Ok(()), |window| check_window(window, tools.config().policy.driver_stale_after.0))
}

/// Refuses an idle window that could reap early, as the settings do with theirs.
fn check_window(window: Ms, driver_stale_after: Ms) -> Result<(), VerbError> {
    if !(SECOND..=LONGEST_WINDOW).contains(&window) {
        return Err(VerbError::Invalid("idle_after must be at least 1s and at most ten years".to_owned()));
    }
    if driver_stale_after > window {
        return Err(VerbError::Invalid(format!(
            "idle_after may not be shorter than policy.driver_stale_after ({}): a driver could be reaped at the wheel",
            compact(driver_stale_after)
        )));
    }
    Ok(())
}

/// Makes the row of a new session on a runner, as it stands before its engine is started.
pub(super) fn new((wish, runner): (&StartWish, &Id), now: UtcMs) -> Session {
    Session {
        id: Id::new(),
        runner_id: runner.clone(),
        owner_id: Some(wish.owner.clone()),
        repo: wish.repo.clone(),
        engine: wish.engine.clone(),
        engine_session_id: None,
        status: Status::Starting,
        generation: 1,
        reopened: 0,
        started_at: Some(now),
        attached_at: Some(now),
        updated_at: Some(now),
        last_activity_at: Some(now),
        last_activity_kind: Some(ActivityKind::Start),
        driver: None,
        driver_at: None,
        keep_until: None,
        keep_reason: None,
        idle_after_ms: wish.idle_after,
        next_check_at: None,
        ended_at: None,
        end_reason: None,
    }
}
