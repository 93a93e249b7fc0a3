//! Which starts are refused: those that make no sense, and those that would reach what belongs to somebody else.

use std::path::Path;

use axum::http::StatusCode;

use crate::protocol::{FailureOutcome, StartRequest};
use crate::runner::Known;
use crate::runner::engines::adapter;
use crate::runner::refusal::Refusal;
use crate::runner::settings::EngineSpec;

/// Refuses a start whose parts no engine could be started from.
pub(super) fn check(request: &StartRequest) -> Result<(), Refusal> {
    let named = |message: String| Err(Refusal::bad(message).about(&request.session_id, request.generation));
    if request.generation < 1 {
        return named(format!("the generation {} is none: they count from 1", request.generation));
    }
    if !Path::new(&request.cwd).is_absolute() {
        return named(format!("the folder {:?} is not an absolute path", request.cwd));
    }
    let names = request.env.keys();
    if let Some(name) = names.into_iter().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return named(format!("{name:?} is not the name of an environment variable"));
    }
    let texts = request.args.iter().chain(request.env.values()).chain([&request.cwd]);
    if texts.into_iter().any(|text| text.contains('\0')) {
        return named("a zero byte cannot be handed to a program".to_owned());
    }
    Ok(())
}

/// Refuses a start that would begin a fresh conversation where only the one that is named is of use.
pub(super) fn check_conversation(request: &StartRequest, spec: &EngineSpec) -> Result<(), Refusal> {
    let message = match &request.engine_session_id {
        _ if !request.must_resume => return Ok(()),
        None => "no conversation is named that could be taken up".to_owned(),
        Some(_) if adapter(spec.adapter).takes_up(spec) => return Ok(()),
        Some(_) => format!(
            "it would begin a fresh conversation, since the runner's settings have no command that takes one up: \
             engines.{}.resume",
            request.engine
        ),
    };
    Err(Refusal::bad(message).about(&request.session_id, request.generation))
}

/// Refuses a start that would reach another owner's session or conversation, exactly as if nothing were known of it, and
/// one of a conversation that another session's engine holds: no engine guards its own against a second process.
pub(super) fn check_owner(known: &Known, request: &StartRequest) -> Result<(), Refusal> {
    let (id, generation) = (&request.session_id, request.generation);
    let strange = |owner: &Option<String>| *owner != request.owner_id;
    let living = known.sessions.get(id).is_some_and(|session| strange(&session.owner_id));
    let ended = known.records.newest(id).is_some_and(|record| strange(&record.owner_id));
    if living || ended {
        return Err(Refusal::not_tracked(id, generation));
    }
    let Some(conversation) = request.engine_session_id.as_deref() else { return Ok(()) };
    if known.is_anothers(conversation, request.owner_id.as_deref()) {
        return Err(Refusal::not_tracked(id, generation));
    }
    match known.holders(conversation).find(|holder| holder.id != *id) {
        Some(holder) => {
            let message =
                format!("the conversation {conversation:?} is held by the engine of the session {}", holder.id);
            Err(Refusal::new(StatusCode::CONFLICT, FailureOutcome::InUse, message).about(id, generation))
        }
        None => Ok(()),
    }
}
