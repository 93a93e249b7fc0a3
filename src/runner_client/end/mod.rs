//! What an answer to `POST /coding/end` may be taken for.
//!
//! [`StopAnswer::Stopped`], [`StopAnswer::AlreadyStopped`] and [`StopAnswer::NotTracked`] let a row be closed, so each
//! needs an answer that names this session and says so without contradiction. Of a runner that speaks the protocol it must
//! also name this generation, this runner and the epoch that the stamp is from. Everything else is a failure or a refusal,
//! and the session stays.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::protocol::{Because, EndAnswer, EndOutcome, EndRequest, Ended, Failure, Origin, Told};
use crate::runner_client::exchange::Reply;
use crate::runner_client::foreign::{Remarks, is_page};
use crate::runner_client::{NoAnswer, StopAnswer, StopCall, Target};
use crate::session::Id;
use crate::time::Ms;

/// Returns the body to send: the whole request, or the bare id that is enough for a foreign runner.
pub(super) fn body(target: &Target, request: &EndRequest) -> Value {
    let bare = || json!({"session_id": request.session_id});
    if target.speaks_protocol { serde_json::to_value(request).unwrap_or_else(|_| bare()) } else { bare() }
}

/// Reads the answer to the stop that `call` asked `target` for.
pub(super) fn read_end(reply: &Reply, target: &Target, call: &StopCall) -> StopAnswer {
    let remarks = Remarks::of(reply);
    if target.speaks_protocol || remarks.say_protocol() {
        return by_protocol(reply, target, &call.request)
            .unwrap_or_else(|no_answer| StopAnswer::Failed(no_answer.to_string()));
    }
    by_status(reply, remarks, call)
}

fn by_protocol(reply: &Reply, target: &Target, request: &EndRequest) -> Result<StopAnswer, NoAnswer> {
    match reply.status {
        200 | 202 | 404 => certain(reply, target, request),
        409 => refused(reply, target, request),
        _ => match serde_json::from_slice::<Failure>(&reply.body) {
            Ok(failure) => Err(NoAnswer::Unrecognised(format!(
                "the runner could not stop it (status {}, {}): {}",
                reply.status, failure.outcome, failure.message
            ))),
            Err(_) => Err(reply.odd()),
        },
    }
}

fn certain(reply: &Reply, target: &Target, request: &EndRequest) -> Result<StopAnswer, NoAnswer> {
    let answer: EndAnswer = parse(reply)?;
    target.check(&answer.origin)?;
    let odd = |what: &str| Err(NoAnswer::Unrecognised(format!("the answer is no answer to this stop: {what}")));
    if answer.session_id != request.session_id {
        return odd("it names another session");
    }
    if answer.generation.is_some_and(|generation| generation != request.generation) {
        return odd("it names another generation");
    }
    if request.stamp.is_some() && target.epoch.is_some_and(|epoch| epoch != answer.origin.epoch) {
        return odd("the runner was started again since it gave the stamp");
    }
    let named = answer.generation.is_some();
    match (reply.status, answer.outcome, answer.ended) {
        (202, EndOutcome::Accepted, _) => Ok(StopAnswer::Accepted),
        (404, EndOutcome::NotTracked, _) if answer.origin.ready => Ok(StopAnswer::NotTracked),
        (404, EndOutcome::NotTracked, _) => odd("the runner does not know all its engines yet"),
        (200, EndOutcome::Stopped | EndOutcome::AlreadyStopped, _) if !named => odd("it names no generation"),
        (200, EndOutcome::Stopped, part) => {
            let record =
                part.map_or_else(|| record(request), |part| part.with_ids(answer.session_id, request.generation));
            Ok(StopAnswer::Stopped(Box::new(record)))
        }
        (200, EndOutcome::AlreadyStopped, Some(part)) if !part.reason.trim().is_empty() => {
            Ok(StopAnswer::AlreadyStopped(Box::new(part.with_ids(answer.session_id, request.generation))))
        }
        (200, EndOutcome::AlreadyStopped, _) => odd("it does not say why the engine had ended"),
        (status, outcome, _) => odd(&format!("its outcome {outcome} does not fit its status {status}")),
    }
}

/// Reads a refusal leniently: whatever else it says, the runner keeps the engine.
fn refused(reply: &Reply, target: &Target, request: &EndRequest) -> Result<StopAnswer, NoAnswer> {
    #[derive(Deserialize)]
    struct Refusal {
        #[serde(flatten)]
        origin: Origin,
        #[serde(default)]
        session_id: Option<Id>,
        outcome: String,
        #[serde(default)]
        because: Told<Because>,
        #[serde(default)]
        idle_ms: Told<Ms>,
        #[serde(default)]
        highest_generation: Told<i64>,
    }
    let refusal: Refusal = parse(reply)?;
    target.check(&refusal.origin)?;
    if refusal.outcome != EndOutcome::Refused.as_str()
        || refusal.session_id.is_some_and(|session_id| session_id != request.session_id)
    {
        return Err(reply.odd());
    }
    Ok(StopAnswer::Refused {
        because: refusal.because.value(),
        idle_ms: refusal.idle_ms.value(),
        highest_generation: refusal.highest_generation.value(),
    })
}

/// Reads a foreign runner's answer, by its status unless the body contradicts it.
fn by_status(reply: &Reply, mut remarks: Remarks, call: &StopCall) -> StopAnswer {
    let request = &call.request;
    let outcome = remarks.outcome();
    let contradiction = remarks.contradiction(reply, request.session_id.as_str(), request.generation);
    let keeps = StopAnswer::Refused { because: None, idle_ms: None, highest_generation: None };
    match (reply.status, outcome.as_deref()) {
        (409, _) | (200, Some("refused")) => keeps,
        (202, _) | (200, Some("accepted")) => StopAnswer::Accepted,
        (404, None | Some("not_tracked")) | (200, Some("not_tracked")) => not_tracked(reply, call),
        (200 | 204, None | Some("stopped")) => match contradiction {
            None => StopAnswer::Stopped(Box::new(record(request))),
            Some(why) => StopAnswer::Failed(why),
        },
        (200, Some("already_stopped")) => match contradiction {
            None => {
                let reason = remarks.reason().unwrap_or_else(|| request.reason.clone());
                StopAnswer::AlreadyStopped(Box::new(Ended { reason, ..record(request) }))
            }
            Some(why) => StopAnswer::Failed(why),
        },
        _ => StopAnswer::Failed(format!("the runner answered the stop with status {}", reply.status)),
    }
}

fn not_tracked(reply: &Reply, call: &StopCall) -> StopAnswer {
    if is_page(reply) {
        return StopAnswer::Failed("the answer is a web page, not a runner's".to_owned());
    }
    if call.set_recognised {
        return StopAnswer::NotTracked;
    }
    StopAnswer::Failed("the runner does not find the session, and its tracked set could not be read".to_owned())
}

/// Makes the record of a stop whose runner told none.
fn record(request: &EndRequest) -> Ended {
    Ended {
        session_id: request.session_id.clone(),
        generation: request.generation,
        reason: request.reason.clone(),
        sweep_id: request.sweep_id.clone(),
        ended_ago_ms: None,
        exit: None,
        stages: Vec::new(),
        freed_bytes: None,
        not_freed: Vec::new(),
        resume: None,
        engine_session_id: None,
        detail: None,
        containment: None,
    }
}

fn parse<'a, T: Deserialize<'a>>(reply: &'a Reply) -> Result<T, NoAnswer> {
    serde_json::from_slice(&reply.body).map_err(|error| {
        let why: String = error.to_string().chars().take(120).collect();
        NoAnswer::Unrecognised(format!("the answer, with status {}, is none of the protocol's: {why}", reply.status))
    })
}

#[cfg(test)]
mod tests;
