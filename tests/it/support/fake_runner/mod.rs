//! A scripted runner on a real port: behaves as a true one, or as a foreign one, until it is told to answer otherwise.
//!
//! Time is the clock it is given, so silence grows when a test lets it. Every call is recorded, may be waited for, and
//! may be held before it is decided or before it is answered, so that a test can act in between. Nothing here sleeps.

mod script;
mod server;
mod truth;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sexton::clock::{Clock, ManualClock};
use sexton::protocol::EngineState;
use sexton::session::{Id, Runner};
use sexton::time::UtcMs;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) use script::{Answering, Call, FakeEngine, Guard, Raw, Script, Stop, Verb};

/// The point in a call at which a test acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// The request is there, and nothing has been decided.
    Arrived,
    /// It has been decided and done, and the answer is not sent.
    Decided,
}

type Hook = Arc<dyn Fn(Call) -> BoxFuture<'static, ()> + Send + Sync>;

/// What the server's tasks and the test share.
struct Shared {
    clock: Arc<dyn Clock>,
    script: Mutex<Script>,
    hooks: Mutex<Vec<(Verb, When, Hook)>>,
    calls: watch::Sender<Vec<Call>>,
    dead: watch::Sender<bool>,
}

/// A runner for tests. Dropping it closes its port and all its connections.
pub(crate) struct FakeRunner {
    /// Where it listens.
    pub(crate) url: String,
    shared: Arc<Shared>,
    server: Option<JoinHandle<()>>,
}

impl FakeRunner {
    /// Starts one that speaks the protocol, on a clock that stands still.
    pub(crate) async fn start() -> Self {
        Self::with_clock(Arc::new(ManualClock::at(UtcMs(1_800_000_000_000)))).await
    }

    /// Starts one that speaks the protocol, on the clock given.
    pub(crate) async fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            clock,
            script: Mutex::new(Script::new()),
            hooks: Mutex::default(),
            calls: watch::Sender::new(Vec::new()),
            dead: watch::Sender::new(false),
        });
        let server = Some(server::spawn(listener, Arc::clone(&shared)));
        Self { url, shared, server }
    }

    /// Starts one that someone else wrote: bare ids, 200 without a body to `end`, no other route.
    pub(crate) async fn foreign() -> Self {
        let runner = Self::start().await;
        runner.script().foreign = true;
        runner
    }

    /// Returns its state and its orders, to be looked at or changed. Never held over an `await`.
    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.shared.script.lock().unwrap()
    }

    /// Lets it hold an engine in this state; ages grow with the clock from now on.
    pub(crate) fn hold_engine(&self, session_id: &Id, generation: i64, state: EngineState) {
        let engine = FakeEngine::new(generation, state, self.shared.clock.awake());
        self.script().engines.insert(session_id.clone(), engine);
    }

    /// Answers this kind of call like this from now on, for one session or for all.
    pub(crate) fn answer(&self, verb: Verb, session_id: Option<&Id>, answering: Answering) {
        self.script().always.insert((verb, session_id.cloned()), answering);
    }

    /// Answers the next call of this kind like this, then as before.
    pub(crate) fn answer_once(&self, verb: Verb, session_id: Option<&Id>, answering: Answering) {
        self.script().once.push(((verb, session_id.cloned()), answering));
    }

    /// Returns all calls so far, oldest first.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.shared.calls.borrow().clone()
    }

    /// Returns the calls of one kind so far, oldest first.
    pub(crate) fn calls_of(&self, verb: Verb) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.verb == verb).collect()
    }

    /// Waits until `count` calls of this kind have arrived, and returns the last of those.
    pub(crate) async fn wait_for(&self, verb: Verb, count: usize) -> Call {
        let mut calls = self.shared.calls.subscribe();
        let of = |calls: &[Call]| calls.iter().filter(|call| call.verb == verb).nth(count - 1).cloned();
        let waiting = calls.wait_for(|calls| of(calls).is_some());
        let arrived = tokio::time::timeout(Duration::from_secs(30), waiting).await;
        let calls = arrived.unwrap_or_else(|_| panic!("no {count} {verb:?} calls, only {:?}", self.calls())).unwrap();
        of(&calls).unwrap()
    }

    /// Takes all hooks back.
    pub(crate) fn unhook(&self) {
        self.shared.hooks.lock().unwrap().clear();
    }

    /// Runs `hook` at that point of every call of this kind, before the call goes on.
    pub(crate) fn hook<F, R>(&self, verb: Verb, when: When, hook: F)
    where
        F: Fn(Call) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let hook: Hook = Arc::new(move |call| Box::pin(hook(call)));
        self.shared.hooks.lock().unwrap().push((verb, when, hook));
    }

    /// Holds all calls of this kind at that point until the gate is opened or dropped.
    pub(crate) fn hold(&self, verb: Verb, when: When) -> Gate {
        let gate = Gate { reached: Arc::new(watch::Sender::new(0)), open: watch::Sender::new(false) };
        let (reached, open) = (Arc::clone(&gate.reached), gate.open.subscribe());
        self.hook(verb, when, move |_| {
            let (reached, mut open) = (Arc::clone(&reached), open.clone());
            async move {
                reached.send_modify(|count| *count += 1);
                // An error means that the gate is gone, which opens it.
                drop(open.wait_for(|open| *open).await);
            }
        });
        gate
    }

    /// Closes the port and breaks every connection, as a killed runner does. Its engines live on.
    pub(crate) async fn die(&mut self) {
        self.shared.dead.send_replace(true);
        if let Some(server) = self.server.take() {
            server.abort();
            drop(server.await);
        }
    }

    /// Starts it again on the same port, at the next epoch, with the engines it had.
    pub(crate) async fn restart(&mut self) {
        self.die().await;
        self.shared.dead.send_replace(false);
        self.script().epoch += 1;
        let listener = TcpListener::bind(self.url.trim_start_matches("http://")).await.unwrap();
        self.server = Some(server::spawn(listener, Arc::clone(&self.shared)));
    }

    /// Returns the row of a runner that has just been enrolled under this name.
    pub(crate) fn row(&self, id: &str) -> Runner {
        Runner {
            id: id.parse().unwrap(),
            url: self.url.clone(),
            token_file: None,
            created_at: self.shared.clock.now(),
            last_seen_at: None,
            epoch: None,
            protocol: None,
            state_id: None,
            identity: None,
            require_conditional_stop: false,
        }
    }
}

impl Drop for FakeRunner {
    fn drop(&mut self) {
        self.shared.dead.send_replace(true);
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

/// Holds calls back; dropping it lets them go.
pub(crate) struct Gate {
    reached: Arc<watch::Sender<usize>>,
    open: watch::Sender<bool>,
}

impl Gate {
    /// Waits until a call stands at the gate.
    pub(crate) async fn reached(&self) {
        self.reached_by(1).await;
    }

    /// Waits until so many calls have come to the gate.
    pub(crate) async fn reached_by(&self, calls: usize) {
        let mut reached = self.reached.subscribe();
        let waiting = reached.wait_for(|count| *count >= calls);
        drop(tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("no call came to the gate"));
    }

    /// Lets all calls go, those to come included.
    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}
