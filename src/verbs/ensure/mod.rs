//! Ensuring that an owner has an open session in a repo: row first, then engine, so that no engine is ever without a row.
//!
//! Whatever is found there is brought to a session that can be used: created (`place.rs`, `row.rs`, `launch.rs`), waited for
//! (`wait.rs`), used, attached again (`reattach.rs`), moved (`relocate.rs`, `free.rs`) or opened again (`gone.rs`, `stranded.rs`). Each
//! step compares what it read with what is there; whoever loses such a race looks again.

mod free;
mod gone;
mod launch;
mod place;
mod reattach;
mod relocate;
mod row;
mod stranded;
mod wait;

pub use row::tidy_repo;

pub(super) use launch::{Conversation, launch_or_close};
pub(super) use reattach::reattach;
pub(super) use wait::{Settled, settled};

use crate::activity::{Heard, touch_once};
use crate::session::{ActivityKind, Id, Session, Status};
use crate::store::Inserted;
use crate::time::Ms;
use crate::timeline::{self, Actor};
use crate::tools::Tools;
use crate::verbs::{VerbError, close_if_ended, find_open};

/// How often what is there is looked at again, after somebody else changed it first.
const LOOKS: u32 = 16;

/// What is to be there.
#[derive(Debug, Clone)]
pub struct StartWish {
    /// For whom.
    pub owner: String,
    /// The folder that the engine works in.
    pub repo: String,
    /// The engine's name on the runner.
    pub engine: String,
    /// On which runner: a new session is opened there, and one that is open elsewhere is moved there. None means wherever
    /// it is, and a new one on the runner of this machine where that is enrolled, else on the only one.
    pub runner: Option<Id>,
    /// Whether it is moved although its engine cannot be stopped first, since its runner is out of reach.
    pub force: bool,
    /// Arguments for the engine of a new session; kept for its later starts.
    pub args: Vec<String>,
    /// The own idle window of a new session.
    pub idle_after: Option<Ms>,
}

impl StartWish {
    /// Makes a wish for a session wherever it is, and on the usual runner where there is none.
    #[must_use]
    pub fn new(owner: String, repo: String, engine: String) -> Self {
        Self { owner, repo, engine, runner: None, force: false, args: Vec::new(), idle_after: None }
    }
}

/// A session that is open now.
#[derive(Debug, Clone)]
pub struct Started {
    /// Its row.
    pub session: Session,
    /// Whether this call opened it; false when the owner had it open in that repo, or somebody else opened it first.
    pub opened: bool,
    /// Whether this call started an engine for it: as it was opened, attached again or moved.
    pub launched: bool,
    /// What its runner said: that it started the engine, or to the touch of one that was there. It counts as a use.
    pub heard: Heard,
}

impl Started {
    fn found(session: Session, heard: Heard) -> Self {
        Self { session, opened: false, launched: false, heard }
    }

    fn launched(session: Session, opened: bool) -> Self {
        Self { session, opened, launched: true, heard: Heard::Yes }
    }
}

/// Ensures that an owner has an open session with an engine in a repo; to find one is a use of it.
///
/// One whose runner says that its engine has ended is closed with that reason, and a new one opened. One whose ready
/// runner holds no engine for it is attached again there.
///
/// # Errors
/// When the wish makes no sense, it names no runner and several could be meant, the owner has another engine open there, the runner holds another start of it, it is to
/// be moved and may not be, the engine does not start (the row is closed as `start_failed`, unless nobody knows whether
/// the engine runs: then the next passes settle it), somebody else's start does not end in time, or the store fails.
pub async fn start(tools: &Tools, wish: &StartWish, actor: &Actor) -> Result<Started, VerbError> {
    row::check(wish, tools)?;
    let wish = &StartWish { repo: tidy_repo(&wish.repo), ..wish.clone() };
    for _ in 0..LOOKS {
        let looked = match tools.store.find_open_session(Some(&wish.owner), &wish.repo).await? {
            Some(open) => take(tools, (&open, wish), actor).await?,
            None => open_new(tools, wish, actor).await?,
        };
        if let Some(started) = looked {
            return Ok(started);
        }
    }
    Err(VerbError::Conflict(format!("what {} has open in {} keeps changing; ask again", wish.owner, wish.repo)))
}

/// Opens a session where none is open; none when there is one by now.
async fn open_new(tools: &Tools, wish: &StartWish, actor: &Actor) -> Result<Option<Started>, VerbError> {
    if gone::reopen(tools, wish, actor).await? {
        return Ok(None);
    }
    if let Some(session) = stranded::go_on(tools, wish, actor).await? {
        return Ok(Some(Started::launched(session, false)));
    }
    let (runner, now) = (place::choose(tools, wish).await?, tools.clock.now());
    let session = row::new((wish, &runner), now);
    let entry = timeline::started(&session, actor, now);
    match tools.store.insert_started(&session, &wish.args, &entry).await? {
        Inserted::Done => {
            Ok(Some(Started::launched(launch_or_close(tools, &session, Conversation::Wished, actor).await?, true)))
        }
        Inserted::Taken(_) => Ok(None),
    }
}

/// Takes the session that is open there; none when it has to be looked at again.
async fn take(
    tools: &Tools,
    (open, wish): (&Session, &StartWish),
    actor: &Actor,
) -> Result<Option<Started>, VerbError> {
    if open.engine != wish.engine {
        return other_engine(tools, (open, wish)).await.map(|()| None);
    }
    let elsewhere = wish.runner.as_ref().filter(|named| **named != open.runner_id);
    if open.status == Status::Starting {
        // Not touched: a start that fails closes the row as it is.
        return Ok(match settled(tools, open).await? {
            Settled::Active(session) if elsewhere.is_none() => Some(Started::found(*session, Heard::Yes)),
            Settled::Active(_) | Settled::Changed => None,
        });
    }
    if let Some(to) = elsewhere {
        let moved = relocate::relocate(tools, (open, to), wish.force, actor).await?;
        return Ok(moved.map(|session| Started::launched(session, false)));
    }
    match touch_once(tools, open, ActivityKind::Start).await? {
        heard @ (Heard::Yes | Heard::Unreached) => {
            // Closed in this very moment: it is looked at again.
            let row = find_open(tools, &open.id).await;
            if matches!(row, Err(VerbError::Ended { .. })) { Ok(None) } else { Ok(Some(Started::found(row?, heard))) }
        }
        Heard::NotTracked => Ok(reattach(tools, open, Conversation::Wished, actor)
            .await?
            .map(|session| Started::launched(session, false))),
        // It may have been started anew since it was read.
        Heard::Generation if has_moved_on(tools, open).await? => Ok(None),
        Heard::Generation => Err(VerbError::generation(open)),
        Heard::Ended(reason) => closed(tools, open, reason).await.map(|()| None),
    }
}

/// Returns whether a row is of another start by now than when it was read.
pub(super) async fn has_moved_on(tools: &Tools, read: &Session) -> Result<bool, VerbError> {
    let row = tools.store.find_session(&read.id).await?;
    Ok(row.is_none_or(|row| row.generation != read.generation || row.is_open() != read.is_open()))
}

/// Closes the row of a session whose engine has ended.
///
/// # Errors
/// When it is open still: its runner is stopping the engine just now.
pub(super) async fn closed(tools: &Tools, open: &Session, reason: String) -> Result<(), VerbError> {
    close_if_ended(tools, open).await?;
    if has_moved_on(tools, open).await? { Ok(()) } else { Err(VerbError::Ended { id: open.id.clone(), reason }) }
}

/// Refuses a second engine beside one that is open, unless that one has ended by its runner's word.
async fn other_engine(tools: &Tools, (open, wish): (&Session, &StartWish)) -> Result<(), VerbError> {
    close_if_ended(tools, open).await?;
    let row = tools.store.find_session(&open.id).await?;
    if row.is_none_or(|row| !row.is_open()) {
        return Ok(());
    }
    Err(VerbError::Conflict(format!(
        "{} has session {} with engine {} open in {}; end it first",
        wish.owner, open.id, open.engine, wish.repo
    )))
}
