//! Recording that a session was used: runner first, then row.
//!
//! The runner's idle clock is what a stop is decided on, so a touch that the runner has not heard of for a while goes to
//! it first; no reap can then overtake somebody who just came back. The row follows, at most once a minute per session
//! (`throttle.rs`), gathered with the others into one transaction.

mod heard;
mod throttle;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

pub use heard::{Heard, tell_runner, touch_once};

use crate::activity::heard::has_ended;
use crate::activity::throttle::{Offer, Throttle, Use};
use crate::session::{ActivityKind, Id, Session};
use crate::store::{StoreError, Touch};
use crate::time::{MINUTE, Ms};
use crate::tools::Tools;

/// How long the gatherer waits between two transactions: at most four a second, whatever comes in.
const SPACING: Duration = Duration::from_millis(250);

/// How often the gatherer looks for held-back touches whose window has ended.
const LOOK: Duration = Duration::from_secs(1);

/// How long the gatherer waits at the most before it tries again to write into a store that fails.
const LONGEST_WAIT: Duration = Duration::from_secs(4);

/// How often what was heard so long ago that it says nothing any more is forgotten.
const FORGET: Ms = MINUTE;

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
    /// Held by the one write at a time, so that who asks for a write knows that those before it are done.
    writing: tokio::sync::Mutex<()>,
}

struct Books {
    throttle: Throttle,
    /// When each session's runner last heard of it, on the waking clock, for this runner and generation.
    heard: HashMap<Id, (Id, i64, Ms)>,
    /// Who waits for the next write of a session's touch.
    waiting: HashMap<Id, Vec<Waiter>>,
    /// Since when nothing that was heard long ago has been forgotten, on the waking clock.
    forgot_at: Ms,
    /// Whether the last write failed, so that an outage is told once.
    failing: bool,
}

/// Is told what became of a write: whether the row was open, or why nothing was written.
type Waiter = oneshot::Sender<Result<bool, StoreError>>;

impl Recorder {
    /// Makes a recorder; its writes happen in [`Recorder::run`].
    #[must_use]
    pub fn new(tools: Tools) -> Self {
        let throttle = Throttle::default();
        let books = Mutex::new(Books {
            throttle,
            heard: HashMap::new(),
            waiting: HashMap::new(),
            forgot_at: tools.clock.awake(),
            failing: false,
        });
        let inner = Inner { tools, books, bell: Notify::new(), writing: tokio::sync::Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Records a use of an open session: runner first where it has not heard for a while, then row. Returns once the row
    /// is committed, the runner took it, or the throttle holds it back. [`Heard::Ended`] when the row was closed
    /// before it could be written and the runner was not asked.
    ///
    /// # Errors
    /// When the store cannot say where the runner is, or the row could not be written and the runner does not know of the
    /// use either. It is tried again all the same: to be written twice harms no use.
    pub async fn touch(&self, session: &Session, kind: ActivityKind) -> Result<Heard, StoreError> {
        let told = !self.heard_lately(session);
        let heard = if told { tell_runner(&self.inner.tools, session, kind).await? } else { Heard::Yes };
        if !heard.counts() {
            self.books(|books| books.heard.remove(&session.id));
            return Ok(heard);
        }
        let taken = told && heard == Heard::Yes;
        if taken {
            self.hear(session);
        }
        let Some(written) = self.offer(session, kind, !taken) else { return Ok(heard) };
        // Whoever wrote lets go of it only when the worker ends in the middle of a write.
        let unwritten = |_| StoreError::Failed {
            store: self.inner.tools.store.name().to_owned(),
            why: "the worker ended before activity was written".to_owned(),
        };
        if written.await.map_err(unwritten)?? {
            return Ok(heard);
        }
        self.books(|books| books.heard.remove(&session.id));
        has_ended(&self.inner.tools, &session.id).await
    }

    /// Gives a use to the throttle; returns what tells of its write, if it is to be written and the caller waits.
    fn offer(
        &self,
        session: &Session,
        kind: ActivityKind,
        wait: bool,
    ) -> Option<oneshot::Receiver<Result<bool, StoreError>>> {
        let clock = &self.inner.tools.clock;
        let at = clock.now();
        let shared = kind.is_shared().then_some((at, kind));
        let used = Use { at, elapsed: clock.elapsed(), window: self.window(session), kind, shared };
        let written = self.books(|books| match books.throttle.offer(&session.id, used) {
            Offer::Held => None,
            Offer::Queued => {
                let (waiter, written) = oneshot::channel();
                if wait {
                    books.waiting.entry(session.id.clone()).or_default().push(waiter);
                }
                Some(written)
            }
        });
        if written.is_some() {
            self.inner.bell.notify_one();
        }
        written.filter(|_| wait)
    }

    /// Notes that a runner has just heard of a session by another way: a message, a claim.
    pub fn hear(&self, session: &Session) {
        let at = self.inner.tools.clock.awake();
        let heard = (session.runner_id.clone(), session.generation, at);
        self.books(|books| books.heard.insert(session.id.clone(), heard));
    }

    /// Returns for how long a write holds the session's next touches back: the throttle, or a quarter of the session's
    /// window where that is shorter, so that the row of a session in use is never near its window.
    fn window(&self, session: &Session) -> Ms {
        let policy = &self.inner.tools.config().policy;
        policy.activity_throttle.0.min(policy.limits_of(session).idle_after_ms / 4)
    }

    /// Returns whether the runner heard of this start of the session within a twelfth of its smallest limit.
    fn heard_lately(&self, session: &Session) -> bool {
        let limits = self.inner.tools.config().policy.limits_of(session).stop();
        let within = limits.quiet_for_ms.min(limits.awaiting_for_ms).min(limits.background_for_ms) / 12;
        let now = self.inner.tools.clock.awake();
        self.books(|books| {
            books.heard.get(&session.id).is_some_and(|(runner, generation, at)| {
                *runner == session.runner_id && *generation == session.generation && now - at < within
            })
        })
    }

    /// Writes what is due until `cancel`, then everything that is still held back; false when that was not written.
    pub async fn run(&self, cancel: CancellationToken) -> bool {
        let mut wait = SPACING;
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                () = self.inner.bell.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            wait = if self.write_due().await { SPACING } else { (wait * 2).min(LONGEST_WAIT) };
            tokio::select! {
                () = cancel.cancelled() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        self.flush().await
    }

    /// Writes what is due now, in one transaction. False when the store failed; it is held on then.
    pub async fn write_due(&self) -> bool {
        self.forget_old();
        let elapsed = self.inner.tools.clock.elapsed();
        self.write(|throttle| throttle.take(elapsed)).await
    }

    /// Writes everything, held back or not: for a clean stop. False when the store failed; it is held on then.
    pub async fn flush(&self) -> bool {
        self.write(Throttle::take_all).await
    }

    async fn write(&self, take: impl FnOnce(&mut Throttle) -> Vec<(Id, Use)>) -> bool {
        let _one = self.inner.writing.lock().await;
        let (batch, waiting) = self.books(|books| (take(&mut books.throttle), std::mem::take(&mut books.waiting)));
        if batch.is_empty() {
            return true;
        }
        let uses = batch.iter().flat_map(|(id, used)| {
            let all = [Some((used.at, used.kind)), used.shared].into_iter().flatten();
            all.map(|(at, kind)| Touch { id: id.clone(), at, kind })
        });
        let touches: Vec<Touch> = uses.collect();
        match self.inner.tools.store.write_touches(&touches).await {
            Ok(open) => {
                self.written(batch, waiting, &open.into_iter().collect());
                true
            }
            Err(error) => {
                self.not_written(batch, waiting, &error);
                false
            }
        }
    }

    /// Arms the windows of the rows that were written, and tells whoever waits.
    fn written(&self, mut batch: Vec<(Id, Use)>, waiting: HashMap<Id, Vec<Waiter>>, open: &HashSet<Id>) {
        // A closed row took nothing, so it holds nothing back either.
        batch.retain(|(id, _)| open.contains(id));
        self.inner.tools.metrics.record_touches(batch.len());
        let recovered = self.books(|books| {
            books.throttle.written(&batch);
            std::mem::replace(&mut books.failing, false)
        });
        if recovered {
            tracing::info!("activity is written again");
        }
        for (id, waiters) in waiting {
            answer(waiters, &Ok(open.contains(&id)));
        }
    }

    /// Puts back what the store did not take, and tells whoever waits.
    fn not_written(&self, batch: Vec<(Id, Use)>, waiting: HashMap<Id, Vec<Waiter>>, error: &StoreError) {
        let sessions = batch.len();
        let failing = self.books(|books| {
            books.throttle.failed(batch);
            std::mem::replace(&mut books.failing, true)
        });
        if !failing {
            tracing::error!(%error, sessions, "activity could not be written and is tried again");
        }
        for waiters in waiting.into_values() {
            answer(waiters, &Err(error.clone()));
        }
    }

    /// Forgets what runners heard so long ago that no session's limits ask for it any more.
    fn forget_old(&self) {
        let limits = self.inner.tools.config().policy.longest_stop_limits();
        // A session's own idle window may be longer than any rule's; the other limits are the settings' alone.
        let longest = limits.awaiting_for_ms.min(limits.background_for_ms) / 12;
        let now = self.inner.tools.clock.awake();
        self.books(|books| {
            if now - books.forgot_at >= FORGET {
                books.forgot_at = now;
                books.heard.retain(|_, (_, _, at)| now - *at < longest);
            }
        });
    }

    fn books<T>(&self, with: impl FnOnce(&mut Books) -> T) -> T {
        with(&mut self.inner.books.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Tells those who wait for a write what became of it; whoever went away misses nothing.
fn answer(waiters: Vec<Waiter>, written: &Result<bool, StoreError>) {
    for waiter in waiters {
        let _gone = waiter.send(written.clone());
    }
}
