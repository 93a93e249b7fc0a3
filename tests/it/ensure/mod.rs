//! Ensuring sessions: what is opened, found, attached again, moved and resumed, and what a crash in between leaves.

mod crash;
mod gone;
mod opened;
mod reattach;
mod relocate;
mod relocate_force;
mod resume;

use std::sync::Arc;

use sexton::entry::{Entry, EntryKind};
use sexton::session::Session;
use sexton::store::EntryFilter;
use sexton::time::MINUTE;
use sexton::verbs::{self, StartWish, Started, VerbError};

use crate::support::fake_runner::{Answering, FakeRunner, Raw};
use crate::support::world::{World, id};

const REPO: &str = "/src/app";
/// The engine's own id of a conversation.
const CONVERSATION: &str = "c0ffee";

fn wish() -> StartWish {
    StartWish::new("me".to_owned(), REPO.to_owned(), "fake".to_owned())
}

/// The wish for the session to be on the second runner.
fn wish_there() -> StartWish {
    StartWish { runner: Some(id("pc")), ..wish() }
}

async fn ensure(world: &World, wish: &StartWish) -> Result<Started, VerbError> {
    verbs::start(&world.tools, wish, &verbs::person(&world.tools, "me")).await
}

/// Starts a second scripted runner, `pc`.
async fn second_runner(world: &World) -> FakeRunner {
    let runner = FakeRunner::with_clock(Arc::new(world.clock.clone())).await;
    runner.script().runner_id = id("pc");
    world.enrol(&runner, "pc").await;
    runner
}

/// Opens a session on the first runner by a start, with arguments and a conversation.
async fn opened(world: &World, runner: &FakeRunner) -> Session {
    let wish = StartWish { runner: Some(id("mac-mini")), args: vec!["--fast".to_owned()], ..wish() };
    let session = ensure(world, &wish).await.unwrap().session;
    let session = talk(world, runner, &session).await;
    // Long enough ago that nothing is on its way to the engine any more.
    world.clock.advance(MINUTE);
    session
}

/// Has the engine of a session tell the id of its conversation, as in a first turn; a pass notes it.
async fn talk(world: &World, runner: &FakeRunner, session: &Session) -> Session {
    runner.script().engines.get_mut(&session.id).unwrap().conversation = Some(CONVERSATION.to_owned());
    world.sweep().await;
    let row = world.read(session).await;
    assert_eq!(row.engine_session_id.as_deref(), Some(CONVERSATION), "a pass notes it");
    row
}

/// Has a runner lose an engine without any memory of it.
fn lose(runner: &FakeRunner, session: &Session) {
    runner.script().engines.remove(&session.id).unwrap();
}

/// A runner's word that it is not known yet whether something is left of an engine that did not get going.
fn busy(generation: i64, session: &Session, runner: &str) -> Answering {
    let body = serde_json::json!({"protocol": 1, "runner_id": runner, "epoch": 1, "ready": true,
        "session_id": session.id, "generation": generation, "outcome": "busy",
        "message": "the engine did not start, and it is not known yet whether something is left of it"});
    Answering::Raw(Raw::json(503, body.to_string()))
}

/// A refusal of a start.
fn start_failed(generation: i64, session: &Session, runner: &str) -> Answering {
    let body = serde_json::json!({"protocol": 1, "runner_id": runner, "epoch": 1, "ready": true,
        "session_id": session.id, "generation": generation, "outcome": "start_failed", "reason": "start_failed",
        "message": "the engine did not start: the engine left with exit code 127; fake: command not found"});
    Answering::Raw(Raw::json(422, body.to_string()))
}

async fn entries(world: &World, session: &Session) -> Vec<Entry> {
    let filter = EntryFilter { session: Some(session.id.clone()), ..EntryFilter::default() };
    world.store().list_timeline(&filter).await.unwrap()
}

async fn kinds(world: &World, session: &Session) -> Vec<EntryKind> {
    entries(world, session).await.into_iter().map(|entry| entry.kind).collect()
}
