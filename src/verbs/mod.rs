//! What a person, a host or an agent does with a session: one file or folder per verb, called by the command line and the API alike.
//!
//! Every verb tells the runner first where the runner's clock or engine is concerned, then writes the row. A new verb is
//! one file here and one line in the list below.

mod drive;
mod end;
mod ended;
mod ending;
mod ensure;
mod find;
mod generating;
mod keep;
mod lease;
mod ready;
mod reply;
mod resume;
mod runs;
mod say;
mod send;

pub use drive::{Driving, claim, driving, release};
pub use end::end;
pub use ended::close_if_ended;
pub use ensure::{StartWish, Started, start, tidy_repo};
pub use find::find_by_engine_id;
pub use generating::{Generating, generating};
pub use keep::{keep, keep_own};
pub use ready::{MayBeEarly, once_ready};
pub use resume::{Farewell, farewell, resume, send_resuming};
pub use runs::{Finished, Report, beat_run, begin_run, finish_run};
pub use say::{clear, interrupt};
pub use send::{Message, Sent, send};

use crate::activity::{Heard, tell_runner};
use crate::protocol::tracked::TrackedSet;
use crate::runner_client::{Observation, Target};
use crate::session::{ActivityKind, Id, Session};
use crate::store::StoreError;
use crate::timeline::Actor;
use crate::tools::Tools;

/// Why a verb was not done. Each is one sentence a person can act on.
#[derive(Debug, thiserror::Error)]
pub enum VerbError {
    /// There is no such session.
    #[error("there is no session {0}")]
    NotFound(Id),
    /// There is no such run.
    #[error("there is no run {0}")]
    NoRun(Id),
    /// The session is closed.
    #[error("session {id} has ended ({reason})")]
    Ended {
        /// The session.
        id: Id,
        /// Why it was closed.
        reason: String,
    },
    /// The session is open, and its runner holds no engine for it.
    #[error("runner {runner} holds no engine for session {id}; starting one in its repo attaches it again")]
    NotTracked {
        /// The session.
        id: Id,
        /// Its runner.
        runner: Id,
    },
    /// The session is open, and its runner holds another start of it than its row says.
    #[error("runner {runner} holds another start of session {id}; ask again, and if that stays, `sexton explain {id}`")]
    Generation {
        /// The session.
        id: Id,
        /// Its runner.
        runner: Id,
    },
    /// Something else stands in the way; the row is as it was.
    #[error("{0}")]
    Conflict(String),
    /// The runner is not enrolled, cannot be reached, or did not do it; the row is as it was.
    #[error("{0}")]
    Runner(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl VerbError {
    /// Makes the error about an open session whose runner holds no engine for it.
    pub(crate) fn not_tracked(session: &Session) -> Self {
        Self::NotTracked { id: session.id.clone(), runner: session.runner_id.clone() }
    }

    /// Makes the error about an open session of which its runner holds another start.
    pub(crate) fn generation(session: &Session) -> Self {
        Self::Generation { id: session.id.clone(), runner: session.runner_id.clone() }
    }
}

/// Finds a session that is open.
///
/// # Errors
/// When there is none of this id, it has ended, or the store fails.
pub async fn find_open(tools: &Tools, id: &Id) -> Result<Session, VerbError> {
    let session = tools.store.find_session(id).await?.ok_or_else(|| VerbError::NotFound(id.clone()))?;
    if session.is_open() { Ok(session) } else { Err(has_ended(&session)) }
}

fn has_ended(session: &Session) -> VerbError {
    let reason = session.end_reason.clone().unwrap_or_else(|| "for an unknown reason".to_owned());
    VerbError::Ended { id: session.id.clone(), reason }
}

/// Finds the runner of a session.
///
/// # Errors
/// [`VerbError::Runner`] when it is not enrolled, which says what to do; when the store fails.
pub(crate) async fn runner_of(tools: &Tools, runner: &Id) -> Result<Target, VerbError> {
    let row = tools.store.find_runner(runner).await?;
    row.as_ref().map(Into::into).ok_or_else(|| {
        VerbError::Runner(format!("runner {runner} is not enrolled; `sexton runners add {runner} URL` enrols it"))
    })
}

/// Finds the runner of a session as one that has been heard: one that never spoke the protocol is asked for its set first,
/// so that it is not taken for one that someone else wrote merely because no pass has met it yet. That set comes with it,
/// where it was asked for and recognised.
async fn heard_runner_of(tools: &Tools, runner: &Id) -> Result<(Target, Option<TrackedSet>), VerbError> {
    let target = runner_of(tools, runner).await?;
    if target.speaks_protocol {
        return Ok((target, None));
    }
    let Observation::Live(set) = tools.runners.tracked(&target).await else { return Ok((target, None)) };
    tools.store.remember_runner(runner, (&set).into(), tools.clock.now()).await?;
    Ok((target.seen(&set), Some(set)))
}

/// Tells the runner of an open session that it is used, before the row says so: no reap can overtake that.
///
/// # Errors
/// When the engine has ended (the row is closed then), the runner holds none or another start, or the store fails. This
/// was no use of the session then.
async fn tell(tools: &Tools, session: &Session, kind: ActivityKind) -> Result<(), VerbError> {
    match tell_runner(tools, session, kind).await? {
        Heard::Yes | Heard::Unreached => Ok(()),
        Heard::NotTracked => Err(VerbError::not_tracked(session)),
        Heard::Generation => Err(VerbError::generation(session)),
        Heard::Ended(reason) => {
            close_if_ended(tools, session).await?;
            Err(VerbError::Ended { id: session.id.clone(), reason })
        }
    }
}

/// Returns why a session is not open any more that was when it was found.
async fn gone_since(tools: &Tools, id: &Id) -> VerbError {
    let error = find_open(tools, id).await.err();
    error.unwrap_or_else(|| VerbError::Conflict(format!("session {id} keeps changing; ask again")))
}

/// Returns who acts, when a person does.
#[must_use]
pub fn person(tools: &Tools, name: &str) -> Actor {
    Actor { name: name.to_owned(), worker_id: tools.worker_id.clone(), sweep_id: None }
}
