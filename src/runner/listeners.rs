//! Who reads an engine's output as it comes: one subscription per client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The readers of one engine's output.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listeners {
    all: Arc<Mutex<HashMap<String, CancellationToken>>>,
}

/// One reader's place among them, given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    listeners: Listeners,
    client: String,
    /// Cancelled when the same client comes again.
    pub(crate) replaced: CancellationToken,
}

impl Listeners {
    /// Adds a reader. An earlier one of the same client is let go, so that nobody hears anything twice.
    #[must_use]
    pub(crate) fn subscribe(&self, client: String) -> Subscription {
        let replaced = CancellationToken::new();
        let mut all = self.lock();
        if let Some(earlier) = all.insert(client.clone(), replaced.clone()) {
            // Under the lock, so that its end sees that it was replaced.
            earlier.cancel();
        }
        drop(all);
        Subscription { listeners: self.clone(), client, replaced }
    }

    /// Returns how many there are.
    #[must_use]
    pub(crate) fn count(&self) -> i64 {
        i64::try_from(self.lock().len()).unwrap_or(i64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut all = self.listeners.lock();
        // A token that is cancelled was replaced: the place belongs to the successor.
        if !self.replaced.is_cancelled() {
            all.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_comes_again_takes_its_own_place_and_leaving_twice_is_harmless() {
        let listeners = Listeners::default();
        let first = listeners.subscribe("a".to_owned());
        let second = listeners.subscribe("a".to_owned());
        let other = listeners.subscribe("b".to_owned());
        assert!(first.replaced.is_cancelled() && !second.replaced.is_cancelled());
        assert_eq!(listeners.count(), 2);
        drop(first);
        assert_eq!(listeners.count(), 2, "it had been let go before");
        drop(second);
        drop(other);
        assert_eq!(listeners.count(), 0);
    }
}
