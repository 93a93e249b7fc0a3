//! The remaining bodies of `/coding`: who answers, start, message, touch, forget, health.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::protocol::{Cursor, TrackedSession};
use crate::session::{ActivityKind, Id};
use crate::words::words;

/// Who answers: part of every answer of a runner that speaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The version of the protocol.
    pub protocol: i64,
    /// The runner's identity.
    pub runner_id: Id,
    /// How often its state folder was started from: +1 at each start, on disk before anything is reported.
    pub epoch: i64,
    /// Whether it knows all its engines again after a start.
    pub ready: bool,
}

/// `GET /coding/health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Who answers.
    #[serde(flatten)]
    pub origin: Origin,
    /// The engines that it can start.
    pub engines: Vec<String>,
    /// How many engines it holds.
    pub sessions: usize,
    /// Its own process, so that a person can look at it or stop it.
    #[serde(default)]
    pub pid: Option<u32>,
    /// One sentence for each file that could not be read and was set aside.
    #[serde(default)]
    pub damaged: Vec<String>,
    /// One sentence for each engine that could not be killed so far.
    #[serde(default)]
    pub stuck: Vec<String>,
    /// One sentence for each thing that keeps it from working as it should.
    #[serde(default)]
    pub troubles: Vec<String>,
}

/// `POST /coding/start`. Its `Debug` names the variables and shows none of their values.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRequest {
    /// The session that the engine is for.
    pub session_id: Id,
    /// Which start of the session this is: the one running → its state; a higher one → the engine is adopted under it;
    /// not above the last ended one → 409 with the highest generation.
    pub generation: i64,
    /// A key of `[engines]`.
    pub engine: String,
    /// The folder to run it in.
    pub cwd: String,
    /// Arguments behind those of the configuration.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables in addition to those of the configuration.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// On whose behalf.
    #[serde(default)]
    pub owner_id: Option<String>,
    /// The engine's own id of a conversation to resume.
    #[serde(default)]
    pub engine_session_id: Option<String>,
    /// A fresh conversation is no use: an engine that cannot take that one up is not started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_resume: bool,
}

impl fmt::Debug for StartRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session_id, generation, engine, cwd, args, env, owner_id, engine_session_id, must_resume } = self;
        f.debug_struct("StartRequest")
            .field("session_id", session_id)
            .field("generation", generation)
            .field("engine", engine)
            .field("cwd", cwd)
            .field("args", args)
            .field("env", &env.keys())
            .field("owner_id", owner_id)
            .field("engine_session_id", engine_session_id)
            .field("must_resume", must_resume)
            .finish()
    }
}

/// A successful answer about one session: to start, messages, touch and forget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionAnswer {
    /// Who answers.
    #[serde(flatten)]
    pub origin: Origin,
    /// The engine as it stands, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<TrackedSession>,
    /// The session asked about.
    pub session_id: Id,
    /// Which start of the session the answer speaks of.
    pub generation: i64,
    /// What came of a touch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TouchOutcome>,
    /// What became of the turn that was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnOutcome>,
}

words! {
    /// What became of a turn whose end was waited for.
    TurnOutcome {
        /// It is over.
        Over = "over",
        /// It goes on; the wait is over.
        Running = "running",
        /// The engine does not tell its turns.
        Untold = "untold",
    }
}

/// `POST /coding/messages`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRequest {
    /// The session whose engine is to have it.
    pub session_id: Id,
    /// Which start of the session is meant.
    pub generation: i64,
    /// The text.
    pub text: String,
    /// What its sender calls it: a message of an id that was taken before is not written again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Id>,
    /// Whether the answer waits until the turn is over, at most as long as the runner lets a caller wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait: bool,
    /// On whose behalf.
    #[serde(default)]
    pub owner_id: Option<String>,
}

/// `POST /coding/interrupt` and `POST /coding/clear`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRequest {
    /// The session.
    pub session_id: Id,
    /// Which start of the session is meant.
    pub generation: i64,
    /// On whose behalf.
    #[serde(default)]
    pub owner_id: Option<String>,
}

/// The query of `GET /coding/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsRequest {
    /// The session.
    pub session_id: Id,
    /// Where to go on: the `id` of the last event that was taken; none begins at the beginning.
    #[serde(default)]
    pub cursor: Option<Cursor>,
    /// The lowest start of the session that is meant: the end of an earlier one is none of this.
    #[serde(default)]
    pub generation: Option<i64>,
    /// Who listens: of each client only the newest stream of a session goes on. Random where none is given.
    #[serde(default)]
    pub client: Option<Id>,
    /// On whose behalf.
    #[serde(default)]
    pub owner_id: Option<String>,
}

/// The query of `GET /coding/find`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindRequest {
    /// The engine's own id of its conversation.
    pub engine_session_id: String,
    /// On whose behalf.
    #[serde(default)]
    pub owner_id: Option<String>,
}

/// The answer to `GET /coding/find`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindAnswer {
    /// Who answers.
    #[serde(flatten)]
    pub origin: Origin,
    /// The session whose engine held the conversation last.
    pub session_id: Id,
    /// Which start of the session that was.
    pub generation: i64,
    /// The engine's own id of its conversation.
    pub engine_session_id: String,
    /// Whether the engine is still there.
    pub tracked: bool,
}

/// The query of `GET /coding/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRequest {
    /// Comes back in the answer, which shows that it is the answer to this question.
    #[serde(default)]
    pub ask: Option<String>,
    /// Whose sessions; such a list is never complete.
    #[serde(default)]
    pub owner_id: Option<String>,
}

/// `POST /coding/touch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TouchRequest {
    /// The session that is used.
    pub session_id: Id,
    /// Which start of the session is meant.
    pub generation: i64,
    /// What uses it.
    pub kind: ActivityKind,
    /// On whose behalf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
}

words! {
    /// What came of a touch.
    TouchOutcome {
        /// 200: the runner's idle clock of the engine starts anew.
        Touched = "touched",
        /// 410: the engine is gone or being stopped; the reason is told.
        Ended = "ended",
        /// 404: the runner does not know the session.
        NotTracked = "not_tracked",
        /// 409: the engine belongs to another start of the session.
        Generation = "generation",
    }
}

/// `POST /coding/forget`: the end of this generation stands in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetRequest {
    /// The session.
    pub session_id: Id,
    /// Which start of the session.
    pub generation: i64,
}
