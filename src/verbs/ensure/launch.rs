//! Starting the engine of a row that stands in `starting`.
//!
//! A row in `starting` belongs to whoever wrote it: nobody else starts its engine or closes it, but for a pass, once it is
//! past `start_timeout`. So a process that dies in between leaves nothing that the next passes do not settle.

use std::collections::BTreeMap;

use crate::protocol::{FailureOutcome, ForgetRequest, StartRequest, TrackedSession};
use crate::runner_client::{NoAnswer, SessionReply};
use crate::session::{Session, Status};
use crate::store::{Close, Closed, Guard};
use crate::timeline::{self, Actor};
use crate::tools::Tools;
use crate::verbs::ensure::reattach::holds_none;
use crate::verbs::lease::environment;
use crate::verbs::{VerbError, close_if_ended, find_open, once_ready, runner_of};
use crate::verdict::Verdict;

/// What an engine that is started is to go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::verbs) enum Conversation {
    /// The row's, where it has one and the engine can take it up; else a fresh one.
    Wished,
    /// The row's, or the engine is not started.
    Needed,
}

/// What came of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Launch {
    /// The engine runs; the row as it stands now.
    Running(Box<Session>),
    /// There is certainly no engine of this start. The row as it was started under, and why.
    Failed(Box<Session>, String),
}

/// What the runner said, as far as it matters.
enum Said {
    Runs(Option<Box<TrackedSession>>),
    CertainlyNot(String),
    HasEnded(String),
    KnowsHigher(i64),
    Unclear,
}

/// How often a row that is closed as it is may be used in that very moment.
const CLOSES: u32 = 3;

/// Starts the engine of a row, with the conversation and the arguments that the row has.
///
/// A runner that knows a later start of the session has the row jump above it, once.
///
/// # Errors
/// When the runner is not enrolled, its engine had ended before it was told (the row is closed then), nobody knows
/// whether it runs (the next passes settle the row), or the store fails.
pub(super) async fn launch(tools: &Tools, session: &Session, conversation: Conversation) -> Result<Launch, VerbError> {
    let mut session = session.clone();
    let (mut said, mut jumped) = (ask(tools, &session, conversation).await?, false);
    if let Said::KnowsHigher(highest) = said
        && let Some(above) = tools.store.jump_generation(&session.id, session.generation, highest).await?
    {
        (session.generation, session.reopened, jumped) = (above, 0, true);
        said = ask(tools, &session, conversation).await?;
    }
    match said {
        Said::Runs(engine) => Ok(Launch::Running(Box::new(runs(tools, &session, engine.as_deref()).await?))),
        Said::CertainlyNot(why) => Ok(Launch::Failed(Box::new(session), why)),
        Said::HasEnded(reason) => {
            close_if_ended(tools, &session).await?;
            Err(VerbError::Ended { id: session.id, reason })
        }
        Said::KnowsHigher(highest) => Err(VerbError::Runner(format!(
            "runner {} knows session {} up to start {highest}{}; the next passes settle it",
            session.runner_id,
            session.id,
            if jumped { ", and more by now" } else { "" }
        ))),
        Said::Unclear => Err(VerbError::Runner(format!(
            "runner {} did not say whether session {} runs; the next passes settle it",
            session.runner_id, session.id
        ))),
    }
}

/// Starts the engine of a row, and closes the row as `start_failed` where there is certainly none.
///
/// What must be true before: this call wrote the row into `starting`, for this very start.
///
/// # Errors
/// As [`launch`], and when the engine did not start.
pub(in crate::verbs) async fn launch_or_close(
    tools: &Tools,
    session: &Session,
    conversation: Conversation,
    actor: &Actor,
) -> Result<Session, VerbError> {
    match launch(tools, session, conversation).await? {
        Launch::Running(session) => Ok(*session),
        Launch::Failed(session, why) => Err(give_up(tools, &session, &why, actor).await?),
    }
}

async fn ask(tools: &Tools, session: &Session, conversation: Conversation) -> Result<Said, VerbError> {
    let target = runner_of(tools, &session.runner_id).await?;
    let args = tools.store.start_args(&session.id).await?;
    let env = environment(tools, session).await?;
    let request = StartRequest { must_resume: conversation == Conversation::Needed, ..request(session, args, env) };
    // A row in `starting` is left alone for longer than this waits.
    Ok(match once_ready(tools, &target, || tools.runners.start(&target, &request)).await {
        Ok(SessionReply::Done(engine)) => Said::Runs(engine),
        Ok(SessionReply::Refused { outcome: Some(outcome), message }) if is_certainly_not(outcome) => {
            Said::CertainlyNot(message)
        }
        Ok(SessionReply::Unsupported) => Said::CertainlyNot("it cannot start engines".to_owned()),
        // Somebody else's session or conversation: nothing of it was told, and nothing done; unless it is this one's own
        // engine that the runner takes for somebody else's.
        Ok(SessionReply::NotTracked) if holds_none(tools, session).await.unwrap_or(false) => {
            Said::CertainlyNot("it knows no such session or conversation of this owner".to_owned())
        }
        Err(NoAnswer::Unconnected(why) | NoAnswer::Unauthorised(why)) => Said::CertainlyNot(why),
        Ok(SessionReply::Ended { reason }) => Said::HasEnded(reason),
        Ok(SessionReply::Generation { highest: Some(highest) }) => Said::KnowsHigher(highest),
        Ok(SessionReply::Refused { .. } | SessionReply::NotTracked | SessionReply::Generation { highest: None })
        | Err(NoAnswer::Unanswered(_) | NoAnswer::Unknown(_) | NoAnswer::Unrecognised(_)) => Said::Unclear,
    })
}

/// Returns whether there is certainly no engine of a start after this refusal of it: the runner refuses before it begins
/// one, or saw that nothing of it is left.
fn is_certainly_not(outcome: FailureOutcome) -> bool {
    match outcome {
        FailureOutcome::StartFailed
        | FailureOutcome::UnknownEngine
        | FailureOutcome::InUse
        | FailureOutcome::BadRequest
        | FailureOutcome::Unauthorised
        | FailureOutcome::NotReady => true,
        // Of an engine that did not get going in time something may be left. The others come without what makes them
        // certain, or say nothing of a start.
        FailureOutcome::Busy
        | FailureOutcome::Internal
        | FailureOutcome::Ended
        | FailureOutcome::NotTracked
        | FailureOutcome::Generation
        | FailureOutcome::Unsupported => false,
    }
}

fn request(session: &Session, args: Vec<String>, env: BTreeMap<String, String>) -> StartRequest {
    StartRequest {
        session_id: session.id.clone(),
        generation: session.generation,
        engine: session.engine.clone(),
        cwd: session.repo.clone(),
        args,
        env,
        owner_id: session.owner_id.clone(),
        engine_session_id: session.engine_session_id.clone(),
        must_resume: false,
    }
}

async fn runs(tools: &Tools, session: &Session, engine: Option<&TrackedSession>) -> Result<Session, VerbError> {
    let (generation, now) = (session.generation, tools.clock.now());
    tools.store.mark_active(&session.id, generation, now).await?;
    let start = engine.map_or(generation, |engine| engine.launched_under(generation));
    tools.store.revoke_leases(&session.id, start, now).await?;
    if let Some(id) = engine.and_then(|engine| engine.engine_session_id.as_deref()) {
        tools.store.set_engine_session_id(&session.id, session.generation, id).await?;
    }
    find_open(tools, &session.id).await
}

/// Closes the row of an engine that certainly does not run, and returns the error that says why.
///
/// What must be true before: the answer to this very start says that there is no engine of it, or it never reached its
/// runner; and this call wrote the row into `starting`. Whoever uses the row meanwhile does not make an engine of it, so
/// it is read again then; one that left `starting` or has another generation by now is left as it is.
///
/// # Errors
/// When the store fails.
pub(super) async fn give_up(
    tools: &Tools,
    session: &Session,
    why: &str,
    actor: &Actor,
) -> Result<VerbError, VerbError> {
    let now = tools.clock.now();
    for _ in 0..CLOSES {
        let row = tools.store.find_session(&session.id).await?;
        let ours = |row: &Session| row.generation == session.generation && row.status == Status::Starting;
        let Some(row) = row.filter(ours) else { break };
        let entry = timeline::start_failed(&row, why, actor, now);
        let reason = Verdict::StartFailed.as_str();
        let close = Close { session: &row, at: now, reason, guard: Guard::Unchanged, entry: &entry, item: None };
        if tools.store.close_session(&close).await? == Closed::Done {
            break;
        }
    }
    forget_start(tools, session).await?;
    Ok(not_started(session, why))
}

/// Lets the runner forget a start that failed: it stands in the timeline.
///
/// # Errors
/// When the store fails.
pub(super) async fn forget_start(tools: &Tools, session: &Session) -> Result<(), VerbError> {
    if let Ok(target) = runner_of(tools, &session.runner_id).await {
        let request = ForgetRequest { session_id: session.id.clone(), generation: session.generation };
        let _told = tools.runners.forget(&target, &request).await;
    }
    Ok(())
}

/// Says that an engine did not start, and why; the same to whoever started it and to whoever waited for it.
pub(super) fn not_started(session: &Session, why: &str) -> VerbError {
    VerbError::Runner(format!("{} did not start on runner {}: {why}", session.engine, session.runner_id))
}
