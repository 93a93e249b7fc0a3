//! One listener's way through the timeline: from its cursor to the head, and on as the head moves.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event as Sent, Sse};
use futures_util::Stream;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, timeout};

use crate::api::feed::Listeners;
use crate::api::stream::{LOOK_AGAIN, Permit};
use crate::store::{EventFilter, Store};

/// So many entries are looked at in one query, whoever they are about.
const WINDOW: i64 = 1_000;

/// So many events are read at once.
const BATCH: u32 = 100;

/// So many events may wait for a listener.
const AHEAD: usize = 16;

/// How patient a stream is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How often a sign of life is sent, and the listener's token looked at again.
    pub(super) ping: Duration,
    /// A listener that takes nothing for this long is let go.
    pub(super) patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { ping: LOOK_AGAIN, patience: Duration::from_secs(60) }
    }
}

/// What a listener wants and where it is.
pub(super) struct Reader {
    store: Store,
    filter: EventFilter,
    /// The last place that it has.
    cursor: i64,
    /// Whether it has not been told where it begins.
    is_new: bool,
}

impl Reader {
    /// Makes one that goes on behind `cursor`, or begins at `head`.
    pub(super) fn new(store: Store, filter: EventFilter, cursor: Option<i64>, head: i64) -> Self {
        Self { store, filter, cursor: cursor.unwrap_or(head), is_new: cursor.is_none() }
    }

    /// Reads for as long as the listener listens and streams do not end.
    pub(super) fn stream(
        self,
        listeners: &Listeners,
        permit: Permit,
        pace: Pace,
    ) -> Sse<impl Stream<Item = Result<Sent, Infallible>> + use<>> {
        let (to, from) = mpsc::channel(AHEAD);
        let (head, ending) = (listeners.listen(&self.store), listeners.ending());
        let mut listener = Listener { reader: self, head, to: to.clone(), permit, pace };
        tokio::spawn(async move {
            tokio::select! {
                () = ending.cancelled() => {}
                () = to.closed() => {}
                _ = listener.follow() => {}
            }
        });
        Sse::new(futures_util::stream::unfold(from, |mut from| async {
            let sent = from.recv().await?;
            Some((Ok(sent), from))
        }))
    }
}

/// A listener that listens.
struct Listener {
    reader: Reader,
    head: watch::Receiver<i64>,
    to: mpsc::Sender<Sent>,
    permit: Permit,
    pace: Pace,
}

impl Listener {
    /// Sends what was and what comes; none when the listener is gone or may no longer listen, or the store failed, after
    /// which it comes back with its cursor.
    async fn follow(&mut self) -> Option<()> {
        self.begin().await?;
        let mut pings = tokio::time::interval(self.pace.ping);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pings.tick().await;
        loop {
            let head = *self.head.borrow_and_update();
            self.catch_up(head).await?;
            tokio::select! {
                changed = self.head.changed() => changed.ok()?,
                _ = pings.tick() => {
                    if !self.permit.look().await {
                        return None;
                    }
                    // Its id moves the cursor past what is not for this listener.
                    self.send(Sent::default().comment("ping").id(self.reader.cursor.to_string())).await?;
                }
            }
        }
    }

    /// Tells where it begins, or what it has missed for good.
    async fn begin(&mut self) -> Option<()> {
        let cursor = self.reader.cursor;
        if self.reader.is_new {
            return self.tell("ready", cursor, &json!({ "seq": cursor })).await;
        }
        let forgotten = self.read(self.reader.store.events_forgotten().await)?;
        if cursor < forgotten {
            self.reader.cursor = forgotten;
            return self.tell("gap", forgotten, &json!({ "from": cursor + 1, "to": forgotten })).await;
        }
        Some(())
    }

    async fn catch_up(&mut self, head: i64) -> Option<()> {
        while self.reader.cursor < head {
            let (after, upto) = (self.reader.cursor, head.min(self.reader.cursor + WINDOW));
            let events = self.reader.store.list_events((after, upto), &self.reader.filter, BATCH).await;
            let events = self.read(events)?;
            let is_all = events.len() < BATCH as usize;
            for event in events {
                if !self.permit.holds().await {
                    return None;
                }
                self.tell(event.entry.kind.as_str(), event.seq, &event).await?;
                self.reader.cursor = event.seq;
            }
            if is_all {
                self.reader.cursor = upto;
            }
        }
        Some(())
    }

    fn read<T, E: std::fmt::Display>(&self, result: Result<T, E>) -> Option<T> {
        result.inspect_err(|error| tracing::warn!(%error, "a listener is let go, since the store failed")).ok()
    }

    async fn tell<T: serde::Serialize>(&self, kind: &str, id: i64, data: &T) -> Option<()> {
        let data = serde_json::to_string(data).ok()?;
        self.send(Sent::default().event(kind).id(id.to_string()).data(data)).await
    }

    async fn send(&self, sent: Sent) -> Option<()> {
        match timeout(self.pace.patience, self.to.send(sent)).await {
            Ok(sent) => sent.ok(),
            Err(_) => {
                tracing::debug!("a listener is let go, since it takes nothing");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;
    use crate::entry::{EntryKind, NewEntry};
    use crate::session::Id;

    async fn store(folder: &tempfile::TempDir) -> Store {
        Store::open(&format!("sqlite://{}/s.db", folder.path().display())).await.unwrap()
    }

    #[tokio::test]
    async fn the_watch_ends_with_the_last_listener_and_begins_with_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let (store, listeners) = (store(&folder).await, Listeners::default());
        let first = listeners.listen(&store);
        let entry = NewEntry {
            session_id: Id::new(),
            generation: 1,
            at: crate::time::UtcMs(1),
            kind: EntryKind::Warned,
            actor: "test".to_owned(),
            reason: None,
            message: "m".to_owned(),
            evidence: json!({}),
            once: None,
            engine_gone: false,
        };
        store.add_entry(&entry).await.unwrap();
        let mut second = listeners.listen(&store);
        drop(first);
        second.wait_for(|head| *head == 1).await.unwrap();
        drop(second);
        store.add_entry(&entry).await.unwrap();
        let mut third = listeners.listen(&store);
        third.wait_for(|head| *head == 2).await.unwrap();
        listeners.end();
    }

    #[tokio::test]
    async fn a_listener_that_takes_nothing_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let (store, listeners) = (store(&folder).await, Listeners::default());
        let (to, mut from) = mpsc::channel(1);
        let pace = Pace { ping: Duration::from_millis(1), patience: Duration::from_millis(20) };
        let reader = Reader::new(store.clone(), EventFilter::default(), None, 0);
        let mut listener = Listener { reader, head: listeners.listen(&store), to, permit: Permit::of(true), pace };
        assert_eq!(listener.follow().await, None);
        drop(listener);
        assert!(from.recv().await.is_some());
        assert!(from.recv().await.is_none(), "no more was kept for it");
    }

    #[tokio::test]
    async fn a_listener_whose_token_was_revoked_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let (store, listeners) = (store(&folder).await, Listeners::default());
        let pace = Pace { ping: Duration::from_millis(1), patience: Duration::from_secs(10) };
        let reader = Reader::new(store, EventFilter::default(), None, 0);
        let answer = axum::response::IntoResponse::into_response(reader.stream(&listeners, Permit::of(false), pace));
        let mut body = answer.into_body().into_data_stream();
        assert!(body.next().await.is_some());
        assert!(body.next().await.is_none(), "nothing comes behind its beginning");
        listeners.end();
    }

    #[tokio::test]
    async fn the_end_of_the_feed_ends_its_streams() {
        let folder = tempfile::tempdir().unwrap();
        let (store, listeners) = (store(&folder).await, Listeners::default());
        let reader = Reader::new(store, EventFilter::default(), None, 0);
        let answer =
            axum::response::IntoResponse::into_response(reader.stream(&listeners, Permit::of(true), Pace::default()));
        let mut body = answer.into_body().into_data_stream();
        let first = body.next().await.unwrap().unwrap();
        assert!(std::str::from_utf8(&first).unwrap().starts_with("event: ready\nid: 0\n"), "{first:?}");
        listeners.end();
        assert!(body.next().await.is_none());
    }
}
