//! What an answer about an engine's output may be taken for: live text, a page of history, the beginning of events.

use serde::de::DeserializeOwned;

use crate::protocol::{Failure, FailureOutcome, HistoryAnswer, LiveAnswer, Origin};
use crate::runner_client::exchange::Reply;
use crate::runner_client::{NoAnswer, OutputReply, Target};
use crate::session::Id;

/// An answer that says who answers, and about which session.
pub(super) trait About: DeserializeOwned {
    /// Returns both.
    fn about(&self) -> (&Origin, &Id);
}

impl About for LiveAnswer {
    fn about(&self) -> (&Origin, &Id) {
        (&self.origin, &self.session_id)
    }
}

impl About for HistoryAnswer {
    fn about(&self) -> (&Origin, &Id) {
        (&self.origin, &self.session_id)
    }
}

/// Reads the answer to a question about the output of the session `id`.
pub(super) fn read_output<T: About>(reply: &Reply, target: &Target, id: &Id) -> Result<OutputReply<T>, NoAnswer> {
    if reply.status != 200 {
        return refused(reply, target, id);
    }
    let answer: T = serde_json::from_slice(&reply.body).map_err(|_| reply.odd())?;
    let (origin, named) = answer.about();
    target.check(origin)?;
    if named != id {
        return Err(NoAnswer::Unrecognised("the answer speaks of another session".to_owned()));
    }
    Ok(OutputReply::There(answer))
}

/// Reads why there is nothing of the output. That a session is not known is an answer only of a runner that is ready.
pub(super) fn refused<T>(reply: &Reply, target: &Target, id: &Id) -> Result<OutputReply<T>, NoAnswer> {
    let failure: Failure = match serde_json::from_slice(&reply.body) {
        Ok(failure) => failure,
        Err(_) if !target.speaks_protocol && matches!(reply.status, 404 | 405 | 501) => {
            return Ok(OutputReply::Unsupported);
        }
        Err(_) => return Err(reply.odd()),
    };
    target.check(&failure.origin)?;
    let named = failure.session_id.as_ref() == Some(id);
    if failure.session_id.is_some() && !named {
        return Err(NoAnswer::Unrecognised("the answer speaks of another session".to_owned()));
    }
    let outcome = failure.known_outcome();
    match (reply.status, outcome, failure.reason) {
        (410, Some(FailureOutcome::Ended), Some(reason)) if named => Ok(OutputReply::Ended { reason }),
        (404, Some(FailureOutcome::NotTracked), _) if named && failure.origin.ready => Ok(OutputReply::NotTracked),
        (404, Some(FailureOutcome::BadRequest), _) => Ok(OutputReply::Unsupported),
        (400 | 416, Some(FailureOutcome::BadRequest), _) if named => Ok(OutputReply::BadCursor(failure.message)),
        (410, Some(FailureOutcome::Ended), _) | (404, Some(FailureOutcome::NotTracked), _) => Err(reply.odd()),
        _ => Ok(OutputReply::Refused { outcome, message: failure.message }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(status: u16, change: &Value) -> Result<OutputReply<HistoryAnswer>, NoAnswer> {
        let target = Target {
            id: "mac".parse().unwrap(),
            url: String::new(),
            token_file: None,
            identity: Some("mac-mini".to_owned()),
            epoch: Some(7),
            state_id: None,
            speaks_protocol: true,
        };
        let mut body = json!({"protocol": 1, "runner_id": "mac-mini", "epoch": 7, "ready": true, "session_id": "s",
            "generation": 1, "message": "so it is"});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        read_output(&Reply::of(status, &body.to_string()), &target, &"s".parse().unwrap())
    }

    #[test]
    fn each_outcome_has_its_status_and_shape() {
        let page = read(200, &json!({"items": [{"cursor": "1-4", "line": "one"}], "cursor": "1-4"})).unwrap();
        assert!(matches!(page, OutputReply::There(page) if page.items.len() == 1 && page.next.is_none()));
        let ended = read(410, &json!({"outcome": "ended", "reason": "idle"})).unwrap();
        assert_eq!(ended, OutputReply::Ended { reason: "idle".to_owned() });
        assert_eq!(read(404, &json!({"outcome": "not_tracked"})).unwrap(), OutputReply::NotTracked);
        assert_eq!(read(416, &json!({"outcome": "bad_request"})).unwrap(), OutputReply::BadCursor("so it is".into()));
        assert_eq!(
            read(404, &json!({"outcome": "bad_request", "session_id": null})).unwrap(),
            OutputReply::Unsupported
        );
        assert!(matches!(read(503, &json!({"outcome": "not_ready"})), Ok(OutputReply::Refused { .. })));
    }

    #[test]
    fn an_answer_of_somebody_else_or_about_something_else_is_none() {
        let page = json!({"items": [], "cursor": "1-0"});
        let with = |change: Value| {
            let mut page = page.clone();
            page.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            page
        };
        for change in
            [json!({"session_id": "t"}), json!({"epoch": 6}), json!({"runner_id": "other"}), json!({"items": 7})]
        {
            assert!(read(200, &with(change.clone())).is_err(), "{change}");
        }
        for change in [json!({"ready": false}), json!({"session_id": "t"}), json!({"session_id": null})] {
            let mut refusal = json!({"outcome": "not_tracked"});
            refusal.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            assert!(read(404, &refusal).is_err(), "{change}");
        }
    }
}
