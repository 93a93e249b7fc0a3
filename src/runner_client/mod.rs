//! Talking to runners: the questions of `/coding`, and what their answers may be taken for.
//!
//! [`RunnerApi`] is the whole interface; [`HttpRunners`] is the one that speaks HTTP, and the only code that knows how.
//! What an answer means is decided by pure functions beside it. Nothing here knows the store or a rule: whether a session
//! is to be stopped is decided elsewhere, whether it *was* stopped is decided here, and every doubt says that it was not.

mod answers;
mod end;
mod events;
mod exchange;
mod foreign;
mod http;
mod output;
mod reach;
mod secret;
mod session;
mod target;
mod wrapped;

use futures_util::future::BoxFuture;

pub use answers::{NoAnswer, Observation, OutputReply, SessionReply, StopAnswer};
pub use events::{EventKind, EventStream, RunnerEvent};
pub use http::{ClientSettings, HttpRunners};
pub use target::Target;
pub use wrapped::{Wrapped, Wrapper};

use crate::protocol::{
    EndRequest, EventsRequest, FindAnswer, FindRequest, ForgetRequest, Health, HistoryAnswer, HistoryRequest,
    LiveAnswer, LiveRequest, MessageRequest, SessionRequest, StartRequest, TouchRequest, TurnOutcome,
};

/// A conditional stop and what the caller knows beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopCall {
    /// What is asked. Of a foreign runner only the session id is sent.
    pub request: EndRequest,
    /// The runner's tracked set was recognised in this pass, so a bare 404 of a foreign runner means "not tracked". Best
    /// said only when that set does not list the session either.
    pub set_recognised: bool,
}

/// What can be asked of a runner. Every method ends within a bounded time and reports failure in its answer.
pub trait RunnerApi: Send + Sync {
    /// Asks for the tracked set, with a random `ask` of its own, and reads it against what `target` remembers.
    fn tracked<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Observation>;

    /// Asks to stop an engine. `target` must be as it was [seen](Target::seen) in the answer that the stamp is from.
    fn end<'a>(&'a self, target: &'a Target, call: &'a StopCall) -> BoxFuture<'a, StopAnswer>;

    /// Says that somebody uses a session.
    fn touch<'a>(
        &'a self,
        target: &'a Target,
        request: &'a TouchRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>>;

    /// Gives an engine a message.
    fn message<'a>(
        &'a self,
        target: &'a Target,
        request: &'a MessageRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>>;

    /// Gives an engine a message, and waits until the turn that it begins is over, or for as long as the runner lets anybody
    /// wait. What became of the turn comes with it, where the runner took the message and told.
    fn converse<'a>(
        &'a self,
        target: &'a Target,
        request: &'a MessageRequest,
    ) -> BoxFuture<'a, Result<(SessionReply, Option<TurnOutcome>), NoAnswer>>;

    /// Asks to start an engine.
    fn start<'a>(
        &'a self,
        target: &'a Target,
        request: &'a StartRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>>;

    /// Interrupts the turn that is running.
    fn interrupt<'a>(
        &'a self,
        target: &'a Target,
        request: &'a SessionRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>>;

    /// Begins a fresh conversation in the same engine.
    fn clear<'a>(
        &'a self,
        target: &'a Target,
        request: &'a SessionRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>>;

    /// Asks which session an engine's own id belongs to; none when the runner knows no such id, or not of that owner.
    fn find<'a>(
        &'a self,
        target: &'a Target,
        request: &'a FindRequest,
    ) -> BoxFuture<'a, Result<Option<FindAnswer>, NoAnswer>>;

    /// Asks how an engine stands, what it has written in the turn that runs, and where its events go on.
    fn live<'a>(
        &'a self,
        target: &'a Target,
        request: &'a LiveRequest,
    ) -> BoxFuture<'a, Result<OutputReply<LiveAnswer>, NoAnswer>>;

    /// Asks for a page of what an engine has said.
    fn history<'a>(
        &'a self,
        target: &'a Target,
        request: &'a HistoryRequest,
    ) -> BoxFuture<'a, Result<OutputReply<HistoryAnswer>, NoAnswer>>;

    /// Listens to an engine. Only until the answer begins is the time bounded; after that, its silence.
    fn events<'a>(
        &'a self,
        target: &'a Target,
        request: &'a EventsRequest,
    ) -> BoxFuture<'a, Result<OutputReply<EventStream>, NoAnswer>>;

    /// Says that an end record stands in the store, so that the runner may drop it.
    fn forget<'a>(
        &'a self,
        target: &'a Target,
        request: &'a ForgetRequest,
    ) -> BoxFuture<'a, Result<SessionReply, NoAnswer>>;

    /// Asks how the runner is; only one that speaks the protocol has an answer.
    fn health<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<Health, NoAnswer>>;
}
