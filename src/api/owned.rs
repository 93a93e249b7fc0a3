//! Whose is what a path names? Asked in one place, before any handler, for every route whose path names something.
//!
//! What a route is about is read from its path itself ([`Subject::of`]), so a new route cannot miss the question: one
//! whose path names something that is not known here lets nobody in.

use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::access::Caller;
use crate::api::error::{ApiError, ErrorCode};
use crate::api::state::{Api, Shared};
use crate::session::{Id, Run, Runner, Session};
use crate::store::RunNamer;
use crate::verbs;

/// How many bytes an engine's own id may have.
const LONGEST_ENGINE_ID: usize = 256;

/// What the path of a route names, and so what must be the caller's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// Nothing in particular.
    Nothing,
    /// A session, which must be the caller's.
    Session,
    /// The engine's own id of a conversation, whose session must be the caller's.
    EngineSession,
    /// A run, whose session must be the caller's.
    Run,
    /// A runner, which belongs to nobody and must be enrolled.
    Runner,
    /// Something that is not known here, so that nobody may have it.
    Unknown,
}

/// Which path names what: the beginning of the path, and the name of its parameter.
const SUBJECTS: [(&str, &str, Subject); 4] = [
    ("/v1/engine-sessions/{engine_session_id}", "engine_session_id", Subject::EngineSession),
    ("/v1/sessions/{id}", "id", Subject::Session),
    ("/v1/runs/{id}", "id", Subject::Run),
    ("/v1/runners/{id}", "id", Subject::Runner),
];

impl Subject {
    /// Reads from the path of a route what it is about.
    pub(super) fn of(path: &str) -> Self {
        let about = |(beginning, ..): &&(&str, &str, Self)| {
            path.strip_prefix(beginning)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') && !rest.contains('{'))
        };
        match SUBJECTS.iter().find(about) {
            Some((.., subject)) => *subject,
            None if path.contains('{') => Self::Unknown,
            None => Self::Nothing,
        }
    }

    /// Returns the name of the path's parameter.
    fn parameter(self) -> &'static str {
        SUBJECTS.iter().find(|(.., subject)| *subject == self).map_or("", |(_, name, _)| name)
    }
}

/// A session of the caller's.
#[derive(Debug, Clone)]
pub(super) struct Owned(pub(super) Session);

/// A run in a session of the caller's.
#[derive(Debug, Clone)]
pub(super) struct OwnedRun(pub(super) Run);

/// An enrolled runner.
#[derive(Debug, Clone)]
pub(super) struct Enrolled(pub(super) Runner);

/// Lets only those through who own what the path names, and hands it to the handler. An unknown id and somebody else's
/// are answered the same, to the byte and after the same work; before the body, so that nothing can be learned from how that
/// is refused.
pub(super) async fn check(State((api, subject)): State<(Shared, Subject)>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match admit(&api, subject, &mut parts).await {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(error) => error.into_response(),
    }
}

async fn admit(api: &Shared, subject: Subject, parts: &mut Parts) -> Result<(), ApiError> {
    if subject == Subject::Nothing {
        return Ok(());
    }
    let caller = Caller::from_request_parts(parts, api).await?;
    let named = named(parts, api, subject.parameter()).await?;
    if subject == Subject::EngineSession {
        let session = by_engine_id(api, &caller, &named).await?;
        parts.extensions.insert(Owned(session));
        return Ok(());
    }
    let id = named.parse().map_err(|why: String| ApiError::new(ErrorCode::BadId, why))?;
    match subject {
        Subject::Nothing | Subject::EngineSession => {}
        Subject::Session => {
            let session = mine(api, &caller, api.tools().store.find_session(&id).await?)?;
            parts.extensions.insert(Owned(session));
        }
        Subject::Run => {
            let session = mine(api, &caller, session_of_run(api, &caller, &id).await?)?;
            let run = api.tools().store.find_run(&session.id, &id).await?.ok_or_else(ApiError::not_found)?;
            parts.extensions.insert(OwnedRun(run));
            parts.extensions.insert(Owned(session));
        }
        Subject::Runner => {
            let runner = api.tools().store.find_runner(&id).await?.ok_or_else(ApiError::not_found)?;
            parts.extensions.insert(Enrolled(runner));
        }
        Subject::Unknown => return Err(ApiError::not_found()),
    }
    Ok(())
}

fn mine(api: &Api, caller: &Caller, session: Option<Session>) -> Result<Session, ApiError> {
    session.filter(|session| caller.may_see(api, session)).ok_or_else(ApiError::not_found)
}

/// Finds the session of the run that a caller names: of its own ones, or for who sees all of anybody's. Of a run that several
/// others have it is nobody's, since a result must not reach another owner than the one that is meant.
async fn session_of_run(api: &Api, caller: &Caller, run: &Id) -> Result<Option<Session>, ApiError> {
    let (owner, others_too) = (caller.owner.as_str(), caller.sees_all());
    let by = RunNamer { owner, ownerless_too: owner == api.owner, others_too };
    let mut found = api.tools().store.find_sessions_of_run(run, by).await?;
    if found.len() > 1 {
        let message = format!("several owners have a run {run}; use a token of the one that is meant");
        return Err(ApiError::new(ErrorCode::Conflict, message));
    }
    Ok(found.pop())
}

/// Finds the session of an engine's own id, asking the runners where the store does not know it yet.
async fn by_engine_id(api: &Api, caller: &Caller, id: &str) -> Result<Session, ApiError> {
    if !(1..=LONGEST_ENGINE_ID).contains(&id.len()) || id.chars().any(char::is_control) {
        return Err(ApiError::new(ErrorCode::BadId, "the engine's id in the path has not the shape of one"));
    }
    let owner = (!caller.sees_all()).then_some(caller.owner.as_str());
    mine(api, caller, verbs::find_by_engine_id(api.tools(), owner, &api.owner, id).await?)
}

/// Returns what the path names, as it stands there.
async fn named(parts: &mut Parts, api: &Shared, parameter: &str) -> Result<String, ApiError> {
    let path = RawPathParams::from_request_parts(parts, api).await;
    let path = path.map_err(|_| ApiError::new(ErrorCode::BadId, "the id in the path is not text"))?;
    Ok(path.iter().find(|(name, _)| *name == parameter).map(|(_, id)| id.to_owned()).unwrap_or_default())
}

/// A handler whose path names nothing of the kind is a fault in the table of routes, and refused all the same.
macro_rules! handed_over {
    ($($what:ty),*) => {$(
        impl FromRequestParts<Shared> for $what {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, ApiError> {
                parts.extensions.get::<Self>().cloned().ok_or_else(ApiError::not_found)
            }
        }
    )*};
}

handed_over!(Owned, OwnedRun, Enrolled);

#[cfg(test)]
mod tests {
    use super::Subject;

    #[test]
    fn a_path_says_what_it_is_about_and_an_unknown_one_is_nobodys() {
        assert_eq!(Subject::of("/v1/sessions"), Subject::Nothing);
        assert_eq!(Subject::of("/v1/sessions/{id}"), Subject::Session);
        assert_eq!(Subject::of("/v1/sessions/{id}/timeline"), Subject::Session);
        assert_eq!(Subject::of("/v1/runs/{id}/heartbeat"), Subject::Run);
        assert_eq!(Subject::of("/v1/runners/{id}/connectivity"), Subject::Runner);
        for path in
            ["/v1/sessions/{session}", "/v1/things/{id}", "/v1/sessions/{id}/things/{other}", "/v1/sessions/{id}x"]
        {
            assert_eq!(Subject::of(path), Subject::Unknown, "{path}");
        }
    }
}
