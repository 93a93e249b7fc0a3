//! Recording that a session was used: runner first, then row.
//!
//! The runner's idle clock is what a stop is decided on, so a touch that the runner has not heard of for a while goes to
//! it first; no reap can then overtake somebody who just came back. The row follows, at most once a minute per session
//! (`throttle.rs`), gathered with the others into one transaction.

mod throttle;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::activity::throttle::{Offer, Throttle, Use};
use crate::protocol::TouchRequest;
use crate::runner_client::{NoAnswer, SessionReply, Target};
use crate::session::{ActivityKind, Id, Session};
use crate::store::{StoreError, Touch};
use crate::time::Ms;
use crate::tools::Tools;

/// How long the gatherer waits between two transactions: at most four a second, whatever comes in.
const SPACING: Duration = Duration::from_millis(250);

/// How often the gatherer looks for held-back touches whose window has ended.
const LOOK: Duration = Duration::from_secs(1);

/// What the runner said to a touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// It took it, or it heard of the session a short while ago.
    Yes,
    /// It could not be reached, or is one that has no such route; the row alone has it.
    Unreached,
    /// The engine is gone or being stopped, and why. This was no use of the session.
    Ended(String),
    /// It holds no engine for the session. This was no use of the session.
    NotTracked,
    /// It holds another start of the session. This was no use of the session.
    Generation,
}

impl Heard {
    /// Returns whether the touch counts as a use of the session.
    #[must_use]
    pub fn counts(&self) -> bool {
        matches!(self, Self::Yes | Self::Unreached)
    }
}

/// Tells the session's runner that it is used, whatever it has heard before.
///
/// # Errors
/// When the store cannot say where the runner is.
pub async fn tell_runner(tools: &Tools, session: &Session, kind: ActivityKind) -> Result<Heard, StoreError> {
    let Some(runner) = tools.store.find_runner(&session.runner_id).await? else { return Ok(Heard::Unreached) };
    let request = TouchRequest { session_id: session.id.clone(), generation: session.generation, kind };
    Ok(match tools.runners.touch(&Target::from(&runner), &request).await {
        Ok(SessionReply::Done(_)) => Heard::Yes,
        Ok(SessionReply::Ended { reason }) => Heard::Ended(reason),
        Ok(SessionReply::NotTracked) => Heard::NotTracked,
        Ok(SessionReply::Generation { .. }) => Heard::Generation,
        Ok(SessionReply::Refused { .. } | SessionReply::Unsupported) => Heard::Unreached,
        Err(
            NoAnswer::Unconnected(why)
            | NoAnswer::Unanswered(why)
            | NoAnswer::Unauthorised(why)
            | NoAnswer::Unknown(why)
            | NoAnswer::Unrecognised(why),
        ) => {
            tracing::debug!(session_id = %session.id, runner_id = %runner.id, why, "a touch did not reach the runner");
            Heard::Unreached
        }
    })
}

/// Records one use without a throttle: runner first, then row. For processes that live for one command.
///
/// # Errors
/// When the store cannot be read or written.
pub async fn touch_once(tools: &Tools, session: &Session, kind: ActivityKind) -> Result<Heard, StoreError> {
    let heard = tell_runner(tools, session, kind).await?;
    if heard.counts() {
        tools.store.write_touches(&[Touch { id: session.id.clone(), at: tools.clock.now(), kind }]).await?;
    }
    Ok(heard)
}

/// Records uses in a process that lives on: throttled and gathered. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    inner: Arc<Inner>,
}

struct Inner {
    tools: Tools,
    books: Mutex<Books>,
    /// Rings when something was queued.
    bell: Notify,
    /// Counts the finished writes, so that callers can wait for theirs.
    writes: watch::Sender<u64>,
    /// Held by the one write at a time, so that who asks for a write knows that those before it are done.
    writing: tokio::sync::Mutex<()>,
}

struct Books {
    throttle: Throttle,
    /// When each session's runner last heard of it, on the waking clock, for this runner and generation.
    heard: HashMap<Id, (Id, i64, Ms)>,
    /// How many writes have been begun.
    begun: u64,
}

impl Recorder {
    /// Makes a recorder; its writes happen in [`Recorder::run`].
    #[must_use]
    pub fn new(tools: Tools) -> Self {
        let throttle = Throttle::new(tools.config.policy.activity_throttle.0);
        let books = Mutex::new(Books { throttle, heard: HashMap::new(), begun: 0 });
        Self {
            inner: Arc::new(Inner {
                tools,
                books,
                bell: Notify::new(),
                writes: watch::channel(0).0,
                writing: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// Records a use of an open session: runner first where it has not heard for a while, then row. Returns once the row
    /// is committed, the runner took it, or the throttle holds it back.
    ///
    /// # Errors
    /// When the store cannot say where the runner is.
    pub async fn touch(&self, session: &Session, kind: ActivityKind) -> Result<Heard, StoreError> {
        let told = !self.heard_lately(session);
        let heard = if told { tell_runner(&self.inner.tools, session, kind).await? } else { Heard::Yes };
        if !heard.counts() {
            self.books(|books| books.heard.remove(&session.id));
            return Ok(heard);
        }
        if told && heard == Heard::Yes {
            self.hear(session);
        }
        let used = Use { at: self.inner.tools.clock.now(), kind };
        let (offer, begun) = self.books(|books| (books.throttle.offer(&session.id, used), books.begun));
        if offer == Offer::Queued {
            self.inner.bell.notify_one();
            if !(told && heard == Heard::Yes) {
                self.written_after(begun).await;
            }
        }
        Ok(heard)
    }

    /// Notes that a runner has just heard of a session by another way: a message, a claim.
    pub fn hear(&self, session: &Session) {
        let at = self.inner.tools.clock.awake();
        let heard = (session.runner_id.clone(), session.generation, at);
        self.books(|books| books.heard.insert(session.id.clone(), heard));
    }

    /// Returns whether the runner heard of this start of the session within a twelfth of its smallest limit.
    fn heard_lately(&self, session: &Session) -> bool {
        let limits = self.inner.tools.config.policy.stop_limits(session.idle_after_ms);
        let within = limits.quiet_for_ms.min(limits.awaiting_for_ms).min(limits.background_for_ms) / 12;
        let now = self.inner.tools.clock.awake();
        self.books(|books| {
            books.heard.get(&session.id).is_some_and(|(runner, generation, at)| {
                *runner == session.runner_id && *generation == session.generation && now - at < within
            })
        })
    }

    /// Waits until a write has finished that was begun after `begun` writes had been.
    async fn written_after(&self, begun: u64) {
        let mut writes = self.inner.writes.subscribe();
        // The recorder holds the sender, so waiting cannot fail.
        let _closed = writes.wait_for(|finished| *finished > begun).await;
    }

    /// Writes what is due until `cancel`, then everything that is still held back; false when that was not written.
    pub async fn run(&self, cancel: CancellationToken) -> bool {
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                () = self.inner.bell.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            self.write_due().await;
            tokio::select! {
                () = cancel.cancelled() => break,
                () = tokio::time::sleep(SPACING) => {}
            }
        }
        self.flush().await
    }

    /// Writes what is due now, in one transaction.
    pub async fn write_due(&self) {
        let now = self.inner.tools.clock.now();
        self.write(|throttle| throttle.take(now)).await;
    }

    /// Writes everything, held back or not: for a clean stop. False when the store failed; it is held on then.
    pub async fn flush(&self) -> bool {
        self.write(Throttle::take_all).await
    }

    async fn write(&self, take: impl FnOnce(&mut Throttle) -> Vec<(Id, Use)>) -> bool {
        let _one = self.inner.writing.lock().await;
        let (batch, number) = self.books(|books| {
            let batch = take(&mut books.throttle);
            books.begun += u64::from(!batch.is_empty());
            (batch, books.begun)
        });
        if batch.is_empty() {
            return true;
        }
        let touches: Vec<Touch> =
            batch.iter().map(|(id, used)| Touch { id: id.clone(), at: used.at, kind: used.kind }).collect();
        match self.inner.tools.store.write_touches(&touches).await {
            Ok(_) => {
                self.books(|books| books.throttle.written(&batch));
                self.inner.writes.send_replace(number);
                self.inner.tools.metrics.record_touches(batch.len());
                true
            }
            Err(error) => {
                tracing::error!(%error, sessions = batch.len(), "activity could not be written and is tried again");
                self.books(|books| books.throttle.failed(batch));
                self.inner.bell.notify_one();
                false
            }
        }
    }

    fn books<T>(&self, with: impl FnOnce(&mut Books) -> T) -> T {
        with(&mut self.inner.books.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
