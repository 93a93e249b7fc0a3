//! What an answer to touch, message, start, forget or health may be taken for.
//!
//! `ended` and `not_tracked` let a row be closed, so both need an answer of a runner that speaks the protocol and names
//! this session. A bare 404 of a foreign runner is a route that it does not have, never a session that it does not know.

use crate::protocol::{Failure, FailureOutcome, FindAnswer, Health, SessionAnswer, TouchOutcome, TurnOutcome};
use crate::runner_client::exchange::Reply;
use crate::runner_client::foreign::Remarks;
use crate::runner_client::{NoAnswer, SessionReply, Target};
use crate::session::Id;

/// The session and the start of it that a request is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) session_id: &'a Id,
    pub(super) generation: i64,
}

/// Reads the answer to a request about one session.
pub(super) fn read_session(reply: &Reply, target: &Target, about: About<'_>) -> Result<SessionReply, NoAnswer> {
    let remarks = Remarks::of(reply);
    if !target.speaks_protocol && !remarks.say_protocol() {
        return by_status(reply, &remarks, about);
    }
    if (200..300).contains(&reply.status) { done(reply, target, about) } else { failure(reply, target, about) }
}

/// Reads the answer to a message whose turn was waited for, with what became of that turn.
pub(super) fn read_turn(
    reply: &Reply,
    target: &Target,
    about: About<'_>,
) -> Result<(SessionReply, Option<TurnOutcome>), NoAnswer> {
    let read = read_session(reply, target, about)?;
    let told = || serde_json::from_slice::<SessionAnswer>(&reply.body).ok().and_then(|answer| answer.turn);
    let turn = if matches!(read, SessionReply::Done(_)) { told() } else { None };
    Ok((read, turn))
}

/// Reads the answer to `GET /coding/health`.
pub(super) fn read_health(reply: &Reply, target: &Target) -> Result<Health, NoAnswer> {
    if reply.status != 200 {
        return Err(reply.odd());
    }
    let health: Health = serde_json::from_slice(&reply.body).map_err(|_| reply.odd())?;
    target.check(&health.origin)?;
    Ok(health)
}

/// Reads the answer to `GET /coding/find`. That a runner knows no such id is an answer only of one that is ready.
pub(super) fn read_find(
    reply: &Reply,
    target: &Target,
    engine_session_id: &str,
) -> Result<Option<FindAnswer>, NoAnswer> {
    match reply.status {
        200 => {
            let found: FindAnswer = serde_json::from_slice(&reply.body).map_err(|_| reply.odd())?;
            target.check(&found.origin)?;
            if found.engine_session_id != engine_session_id {
                return Err(NoAnswer::Unrecognised("the answer speaks of another conversation".to_owned()));
            }
            Ok(Some(found))
        }
        404 => {
            let failure: Failure = serde_json::from_slice(&reply.body).map_err(|_| reply.odd())?;
            target.check(&failure.origin)?;
            if failure.known_outcome() == Some(FailureOutcome::NotTracked) && failure.origin.ready {
                Ok(None)
            } else {
                Err(reply.odd())
            }
        }
        _ => Err(reply.odd()),
    }
}

fn done(reply: &Reply, target: &Target, about: About<'_>) -> Result<SessionReply, NoAnswer> {
    let answer: SessionAnswer = serde_json::from_slice(&reply.body).map_err(|_| reply.odd())?;
    target.check(&answer.origin)?;
    let fits = answer.session_id == *about.session_id
        && answer.generation == about.generation
        && answer.session.as_ref().is_none_or(|session| session.session_id == *about.session_id)
        && answer.outcome.is_none_or(|outcome| outcome == TouchOutcome::Touched);
    if !fits {
        return Err(NoAnswer::Unrecognised("the answer speaks of another session or generation".to_owned()));
    }
    Ok(SessionReply::Done(answer.session.map(Box::new)))
}

fn failure(reply: &Reply, target: &Target, about: About<'_>) -> Result<SessionReply, NoAnswer> {
    let failure: Failure = serde_json::from_slice(&reply.body).map_err(|_| reply.odd())?;
    target.check(&failure.origin)?;
    let named = failure.session_id.as_ref() == Some(about.session_id);
    if failure.session_id.is_some() && !named {
        return Err(NoAnswer::Unrecognised("the answer speaks of another session".to_owned()));
    }
    let this_start = named && failure.generation == Some(about.generation);
    let outcome = failure.known_outcome();
    match (reply.status, outcome, failure.reason) {
        (410, Some(FailureOutcome::Ended), Some(reason)) if this_start && !reason.trim().is_empty() => {
            Ok(SessionReply::Ended { reason })
        }
        (410, ..) => {
            Err(NoAnswer::Unrecognised("the answer says \"ended\" without naming this engine and why".to_owned()))
        }
        (404, Some(FailureOutcome::NotTracked), _) if named && failure.origin.ready => Ok(SessionReply::NotTracked),
        (404, Some(FailureOutcome::NotTracked), _) => Err(NoAnswer::Unrecognised(
            "the answer says \"not_tracked\" without naming the session, or before the runner is ready".to_owned(),
        )),
        (409, Some(FailureOutcome::Generation), _) => {
            Ok(SessionReply::Generation { highest: failure.highest_generation })
        }
        _ => Ok(SessionReply::Refused { outcome, message: failure.message }),
    }
}

fn by_status(reply: &Reply, remarks: &Remarks, about: About<'_>) -> Result<SessionReply, NoAnswer> {
    match reply.status {
        200..=299 => match remarks.contradiction(reply, about.session_id.as_str(), about.generation) {
            None => Ok(SessionReply::Done(None)),
            Some(why) => Err(NoAnswer::Unrecognised(why)),
        },
        404 | 405 | 501 => Ok(SessionReply::Unsupported),
        status @ 400..=499 => {
            Ok(SessionReply::Refused { outcome: None, message: format!("the runner refused with status {status}") })
        }
        _ => Err(reply.odd()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn target(speaks_protocol: bool) -> Target {
        Target {
            id: "mac".parse().unwrap(),
            url: String::new(),
            token_file: None,
            identity: speaks_protocol.then(|| "mac-mini".to_owned()),
            epoch: speaks_protocol.then_some(7),
            state_id: None,
            speaks_protocol,
        }
    }

    fn read(speaks_protocol: bool, status: u16, body: &Value) -> Result<SessionReply, NoAnswer> {
        let session_id = "s-1".parse().unwrap();
        let about = About { session_id: &session_id, generation: 3 };
        read_session(&Reply::of(status, &body.to_string()), &target(speaks_protocol), about)
    }

    fn with(change: Value) -> Value {
        let mut body = json!({"protocol": 1, "runner_id": "mac-mini", "epoch": 7, "ready": true,
            "session_id": "s-1", "generation": 3, "message": "as it is"});
        if let (Value::Object(body), Value::Object(change)) = (&mut body, change) {
            body.extend(change);
        }
        body
    }

    #[test]
    fn each_outcome_has_its_status_and_shape() {
        let read = |status, change| read(true, status, &with(change)).unwrap();
        assert_eq!(read(200, json!({"outcome": "touched"})), SessionReply::Done(None));
        assert_eq!(
            read(410, json!({"outcome": "ended", "reason": "exited"})),
            SessionReply::Ended { reason: "exited".into() }
        );
        assert_eq!(read(404, json!({"outcome": "not_tracked"})), SessionReply::NotTracked);
        assert_eq!(
            read(409, json!({"outcome": "generation", "highest_generation": 5})),
            SessionReply::Generation { highest: Some(5) }
        );
        assert!(matches!(
            read(503, json!({"outcome": "busy"})),
            SessionReply::Refused { outcome: Some(FailureOutcome::Busy), .. }
        ));
    }

    #[test]
    fn an_answer_about_something_else_is_none() {
        for (status, change) in [
            (200, json!({"session_id": "s-2"})),
            (200, json!({"generation": 4})),
            (200, json!({"epoch": 6})),
            (200, json!({"runner_id": "other"})),
            (200, json!({"session": "s-2"})),
            (200, json!({"outcome": "ended"})),
            (410, json!({"outcome": "ended"})),
            (410, json!({"outcome": "ended", "reason": "exited", "generation": 2})),
            (410, json!({"outcome": "ended", "reason": "exited", "session_id": null})),
            (404, json!({"outcome": "not_tracked", "ready": false})),
            (404, json!({"outcome": "not_tracked", "session_id": null})),
            (404, json!({"outcome": "not_tracked", "session_id": "s-2"})),
        ] {
            let reply = read(true, status, &with(change.clone()));
            assert!(
                matches!(reply, Err(NoAnswer::Unrecognised(_) | NoAnswer::Unknown(_))),
                "{status} {change}: {reply:?}"
            );
        }
        for bare in [200, 404, 410, 500] {
            assert!(matches!(read(true, bare, &json!({})), Err(NoAnswer::Unrecognised(_))), "{bare}");
        }
    }

    #[test]
    fn what_became_of_a_turn_comes_with_a_message_that_was_taken_and_with_nothing_else() {
        let session_id = "s-1".parse().unwrap();
        let about = About { session_id: &session_id, generation: 3 };
        let read = |status, change| read_turn(&Reply::of(status, &with(change).to_string()), &target(true), about);
        assert_eq!(read(200, json!({"turn": "over"})), Ok((SessionReply::Done(None), Some(TurnOutcome::Over))));
        assert_eq!(read(200, json!({})), Ok((SessionReply::Done(None), None)));
        let gone = read(410, json!({"outcome": "ended", "reason": "exited", "turn": "over"}));
        assert!(matches!(gone, Ok((SessionReply::Ended { .. }, None))), "{gone:?}");
        assert!(read(200, json!({"turn": "over", "generation": 4})).is_err());
    }

    #[test]
    fn a_foreign_runner_without_the_route_is_no_runner_without_the_session() {
        assert_eq!(read(false, 404, &json!({"error": "not found"})), Ok(SessionReply::Unsupported));
        assert_eq!(read(false, 405, &json!({})), Ok(SessionReply::Unsupported));
        assert_eq!(read(false, 200, &json!({})), Ok(SessionReply::Done(None)));
        assert!(read(false, 200, &json!({"ok": false})).is_err());
        assert!(read(false, 500, &json!({})).is_err());
        assert!(matches!(read(false, 404, &with(json!({"outcome": "not_tracked"}))), Ok(SessionReply::NotTracked)));
    }
}
