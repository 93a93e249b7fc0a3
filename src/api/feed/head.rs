//! Where the timeline ends: watched by one task for all listeners, and only while there are any.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::store::Store;

/// How often the head is asked for; it is one look into an index, however many listen.
const EVERY: Duration = Duration::from_millis(500);

/// The listeners of one worker. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::api) struct Listeners(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    head: watch::Sender<i64>,
    /// Whether the task is there.
    watching: Mutex<bool>,
    ending: CancellationToken,
}

impl Default for Inner {
    fn default() -> Self {
        Self { head: watch::Sender::new(0), watching: Mutex::new(false), ending: CancellationToken::new() }
    }
}

impl Listeners {
    /// Ends all streams, and every one that is asked for from now on.
    pub(in crate::api) fn end(&self) {
        self.0.ending.cancel();
    }

    /// Returns what is cancelled when streams are to end.
    pub(super) fn ending(&self) -> CancellationToken {
        self.0.ending.clone()
    }

    /// Returns where the timeline ends, now and from now on; at first perhaps where it ended a while ago.
    pub(super) fn listen(&self, store: &Store) -> watch::Receiver<i64> {
        let mut watching = self.0.watching.lock().unwrap_or_else(PoisonError::into_inner);
        let head = self.0.head.subscribe();
        if !*watching && !self.0.ending.is_cancelled() {
            *watching = true;
            tokio::spawn(watch(Arc::clone(&self.0), store.clone()));
        }
        head
    }
}

async fn watch(listeners: Arc<Inner>, store: Store) {
    let mut failing = false;
    loop {
        match store.event_head().await {
            Ok(head) => {
                failing = false;
                listeners.head.send_if_modified(|known| std::mem::replace(known, head) != head);
            }
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "whether something happened could not be read; listeners wait");
                }
            }
        }
        tokio::select! {
            () = listeners.ending.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let mut watching = listeners.watching.lock().unwrap_or_else(PoisonError::into_inner);
        if listeners.head.receiver_count() == 0 {
            *watching = false;
            return;
        }
    }
}
