//! How many connections there are at once, and which one makes room for the next: the one that has had no request in work
//! for longest. One whose request is in work, a stream of events included, is never told to go.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Clients that have waited for this long are told of in the log.
const LONG: Duration = Duration::from_secs(5);

/// The places for connections.
pub(super) struct Seats {
    free: Arc<Semaphore>,
    idle: Arc<Idle>,
}

/// The connections without a request in work.
#[derive(Default)]
struct Idle {
    since: Mutex<Since>,
    /// There is one more.
    more: Notify,
}

/// In the order in which they came to be so.
#[derive(Default)]
struct Since {
    next: u64,
    order: BTreeMap<u64, CancellationToken>,
}

impl Idle {
    fn since(&self) -> MutexGuard<'_, Since> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, go: &CancellationToken) -> u64 {
        let mut since = self.since();
        let place = since.next;
        since.next += 1;
        since.order.insert(place, go.clone());
        drop(since);
        self.more.notify_one();
        place
    }

    fn leave(&self, place: u64) {
        self.since().order.remove(&place);
    }

    /// Tells the one that has been so for longest to go; false when there is none.
    fn dismiss(&self) -> bool {
        let oldest = self.since().order.pop_first();
        oldest.map(|(_, go)| go.cancel()).is_some()
    }
}

impl Seats {
    pub(super) fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), idle: Arc::default() }
    }

    /// Waits for a place; where none is free, one without a request has to go. `go` tells the new one to do so.
    pub(super) async fn take(&self, go: CancellationToken) -> Seat {
        let mut dismissed = false;
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                break permit;
            }
            dismissed = dismissed || self.idle.dismiss();
            tokio::select! {
                Ok(permit) = Arc::clone(&self.free).acquire_owned() => break permit,
                // One goes for one that comes.
                () = self.idle.more.notified(), if !dismissed => {}
                () = sleep(LONG) => tracing::warn!("clients wait: all connections that there may be have a request in work"),
            }
        };
        let idle = Arc::clone(&self.idle);
        let place = Mutex::new(idle.enter(&go));
        Seat { _permit: permit, idle, place, go, asked: AtomicBool::new(false), busy: AtomicBool::new(false) }
    }
}

/// The place of one connection, free again when it is dropped.
pub(super) struct Seat {
    _permit: OwnedSemaphorePermit,
    idle: Arc<Idle>,
    /// Where it stands, or last stood, among those without a request.
    place: Mutex<u64>,
    go: CancellationToken,
    asked: AtomicBool,
    /// A request is in work.
    busy: AtomicBool,
}

impl Seat {
    /// Waits until it has to go.
    pub(super) async fn told_to_go(&self) {
        self.go.cancelled().await;
    }

    /// Returns whether there ever was a request.
    pub(super) fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns whether a request is in work.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Notes that a request is in work, until what is returned is dropped.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.asked.store(true, Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
        self.idle.leave(*self.place());
        Busy(Arc::clone(self))
    }

    fn place(&self) -> MutexGuard<'_, u64> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.idle.leave(*self.place());
    }
}

/// A request in work.
pub(super) struct Busy(Arc<Seat>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Relaxed);
        let mut place = self.0.place();
        *place = self.0.idle.enter(&self.0.go);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn one_goes_for_one_that_comes() {
        let seats = Seats::new(2);
        let (first, second) = (CancellationToken::new(), CancellationToken::new());
        let held = (seats.take(first.clone()).await, seats.take(second.clone()).await);
        let mut third = pin!(seats.take(CancellationToken::new()));
        for _ in 0..3 {
            assert!(poll!(third.as_mut()).is_pending());
        }
        assert_eq!((first.is_cancelled(), second.is_cancelled()), (true, false));
        drop(held.0);
        assert!(poll!(third.as_mut()).is_ready());
        assert!(!second.is_cancelled());
    }
}
