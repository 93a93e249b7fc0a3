//! Runs: a delegated piece of work begins in a session, says that it goes on, and finishes.
//!
//! That each of these is a use of the session is recorded by who calls them. Whether a run that finished also closes its
//! session is decided in `close.rs`.

mod close;

use crate::session::{Id, Run, RunStatus, Session};
use crate::store::RunBegun;
use crate::timeline::{self, Actor};
use crate::tools::Tools;
use crate::verbs::VerbError;

/// The most bytes that a run may report.
const LONGEST_RESULT: usize = 64 * 1_024;

/// How often finishing is tried while something else changes the run: a heartbeat, the sweep.
const TRIES: usize = 3;

/// How a run went.
#[derive(Debug, Clone)]
pub struct Report {
    /// How it stands from now on: `succeeded`, `failed` or `cancelled`.
    pub status: RunStatus,
    /// What it has to say, 64 KiB at the most.
    pub result: Option<String>,
}

/// A run that has finished.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its row. It keeps since when it had been called stale, if it was.
    pub run: Run,
    /// The row of its session, as it stands now.
    pub session: Session,
    /// Why that session is open still, or why it ended; one sentence.
    pub why: String,
}

/// Begins a run in a session, under the caller's id or a new one; `opened` says that it opened the session itself. A run
/// of that id in that session, which there is already, is returned as it stands.
///
/// What must be true before: the session is the caller's, it is open, and its use by a run was recorded.
///
/// # Errors
/// When there is a run of that id in another session, or the store fails.
pub async fn begin_run(
    tools: &Tools,
    (session, opened): (&Session, bool),
    id: Option<Id>,
    actor: &Actor,
) -> Result<Run, VerbError> {
    let now = tools.clock.now();
    let run = Run {
        id: id.unwrap_or_default(),
        session_id: session.id.clone(),
        status: RunStatus::Running,
        opened_session: opened,
        started_at: now,
        heartbeat_at: None,
        finished_at: None,
        stale_at: None,
        result: None,
    };
    match tools.store.begin_run(&run, &timeline::run_started((session, &run), actor, now)).await? {
        RunBegun::Done => Ok(run),
        RunBegun::Taken(there) if there.session_id == run.session_id => Ok(*there),
        RunBegun::Taken(_) => {
            Err(VerbError::Conflict(format!("there is a run {} elsewhere; choose another id", run.id)))
        }
    }
}

/// Notes that a run goes on. One that was called stale is running again: what it says now is newer than that silence.
///
/// # Errors
/// When it has finished, or the store fails.
pub async fn beat_run(tools: &Tools, run: &Run) -> Result<Run, VerbError> {
    let beaten = tools.store.beat_run(run, tools.clock.now()).await?;
    let row = reread(tools, run).await?;
    if beaten { Ok(row) } else { Err(VerbError::Conflict(format!("run {} has finished ({})", row.id, row.status))) }
}

/// Finishes a run, keeps what it reports, and closes the session that it opened itself, if nothing speaks against that.
///
/// What must be true for that stands in `close.rs`; that the session stays is no failure. A run that was called stale is
/// finished all the same. Finishing again in the same way changes nothing, and tells what stands.
///
/// # Errors
/// When the status is none of an end, the result is too long, the run has finished in another way, or the store fails.
pub async fn finish_run(tools: &Tools, run: &Run, report: &Report, actor: &Actor) -> Result<Finished, VerbError> {
    check(report)?;
    let mut run = run.clone();
    for _ in 0..TRIES {
        match run.status {
            RunStatus::Running | RunStatus::Stale => {}
            RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled if run.status == report.status => {
                return stands_already(tools, run).await;
            }
            stands @ (RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled) => {
                return Err(VerbError::Conflict(format!("run {} has finished already, as {stands}", run.id)));
            }
        }
        let finished = write(tools, &run, report, actor).await?;
        run = reread(tools, &run).await?;
        if finished {
            let kept = close::close(tools, &run, actor).await?;
            return told(tools, run, kept).await;
        }
    }
    Err(VerbError::Conflict(format!("run {} is being changed by somebody else; finish it again", run.id)))
}

fn check(report: &Report) -> Result<(), VerbError> {
    if matches!(report.status, RunStatus::Running | RunStatus::Stale) {
        return Err(VerbError::Invalid("a run finishes as succeeded, failed or cancelled".to_owned()));
    }
    if report.result.as_ref().is_some_and(|result| result.len() > LONGEST_RESULT) {
        return Err(VerbError::Invalid(format!(
            "the result is longer than {LONGEST_RESULT} bytes; nothing was finished: keep it elsewhere and say where"
        )));
    }
    Ok(())
}

/// Writes down how a run went; false when it does not stand as it was read.
async fn write(tools: &Tools, run: &Run, report: &Report, actor: &Actor) -> Result<bool, VerbError> {
    let (now, result) = (tools.clock.now(), report.result.as_deref());
    let session = session_of(tools, run).await?;
    let entry = timeline::run_finished((&session, run), report.status, result, actor, now);
    Ok(tools.store.finish_run(run, (report.status, result), now, &entry).await?)
}

/// Tells what stands after a finish. `kept` says why the session was not closed.
async fn told(tools: &Tools, run: Run, kept: Option<String>) -> Result<Finished, VerbError> {
    let session = session_of(tools, &run).await?;
    let why = match kept {
        Some(why) if session.is_open() => why,
        _ => how_it_stands(&session),
    };
    Ok(Finished { run, session, why })
}

async fn stands_already(tools: &Tools, run: Run) -> Result<Finished, VerbError> {
    let why = "the run had finished before, and nothing was done now".to_owned();
    told(tools, run, Some(why)).await
}

/// Says in one sentence whether a session is open, or why it ended.
fn how_it_stands(session: &Session) -> String {
    match (&session.end_reason, session.is_open()) {
        (_, true) => "the session was started anew meanwhile".to_owned(),
        (Some(reason), false) => format!("the session has ended ({reason})"),
        (None, false) => "the session has ended".to_owned(),
    }
}

async fn reread(tools: &Tools, run: &Run) -> Result<Run, VerbError> {
    tools.store.find_run(&run.session_id, &run.id).await?.ok_or_else(|| VerbError::NoRun(run.id.clone()))
}

async fn session_of(tools: &Tools, run: &Run) -> Result<Session, VerbError> {
    let session = tools.store.find_session(&run.session_id).await?;
    session.ok_or_else(|| VerbError::NotFound(run.session_id.clone()))
}
