//! How far each client was served: one seat per session and client, forgotten some time after the client left.
//!
//! A seat is a convenience of this process. Whoever comes back with its own cursor needs none and loses nothing, also after
//! the process was started anew; and nothing that happens to a seat touches an engine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::protocol::Cursor;
use crate::session::Id;
use crate::time::Ms;

/// How many seats are kept at most; of more, the one goes that was left longest ago.
const MOST: usize = 10_000;

/// The seats of all clients. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Seats {
    book: Arc<Mutex<Book>>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct Book {
    seats: HashMap<(Id, Id), Record>,
    /// How many streams have been seated so far.
    seated: u64,
}

struct Record {
    /// The stream that sits there, or sat there last.
    number: u64,
    /// What ends that stream.
    replaced: CancellationToken,
    cursor: Option<Cursor>,
    /// Since when nobody has been there.
    left_at: Option<Ms>,
}

/// One stream's place, given up when it is dropped.
pub struct Seat {
    seats: Seats,
    key: (Id, Id),
    number: u64,
    /// Cancelled when the same client comes again.
    pub replaced: CancellationToken,
    /// Up to where an earlier stream of the client was served.
    pub cursor: Option<Cursor>,
}

impl Seats {
    /// Makes an empty room, on this clock's time that runs on in sleep.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { book: Arc::default(), clock }
    }

    /// Seats a client's stream. An earlier one of the same client is let go, so that nobody hears anything twice. Seats that
    /// were left longer than `release_after` ago are forgotten first, the client's own included.
    #[must_use]
    pub fn take(&self, session: &Id, client: &Id, release_after: Ms) -> Seat {
        let (key, replaced) = ((session.clone(), client.clone()), CancellationToken::new());
        let now = self.clock.elapsed();
        let mut book = self.book();
        book.forget(now - release_after);
        book.make_room();
        book.seated += 1;
        let number = book.seated;
        let cursor = book.seats.get(&key).and_then(|it| it.cursor);
        let fresh = Record { number, replaced: replaced.clone(), cursor, left_at: None };
        let earlier = book.seats.insert(key.clone(), fresh);
        if let Some(earlier) = earlier {
            // Under the lock, so that its end sees that it was replaced.
            earlier.replaced.cancel();
        }
        drop(book);
        Seat { seats: self.clone(), key, number, replaced, cursor }
    }

    /// Returns how many seats are kept, those left longer than `release_after` ago not counted.
    #[must_use]
    pub fn count(&self, release_after: Ms) -> usize {
        let mut book = self.book();
        book.forget(self.clock.elapsed() - release_after);
        book.seats.len()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// Forgets the seats that were left before a time.
    fn forget(&mut self, before: Ms) {
        self.seats.retain(|_, record| record.left_at.is_none_or(|at| at > before));
    }

    /// Forgets those that were left longest ago, while there are as many as may be kept.
    fn make_room(&mut self) {
        while self.seats.len() >= MOST {
            let left = self.seats.iter().filter_map(|(key, record)| Some((record.left_at?, key)));
            let Some(oldest) = left.min_by_key(|(at, _)| *at).map(|(_, key)| key.clone()) else { break };
            self.seats.remove(&oldest);
        }
    }
}

impl Seat {
    /// Notes up to where the client was served.
    pub fn served(&self, cursor: Cursor) {
        self.with(|record| record.cursor = Some(cursor));
    }

    /// Changes the record, unless the place belongs to a successor.
    fn with(&self, change: impl FnOnce(&mut Record)) {
        let mut book = self.seats.book();
        if let Some(record) = book.seats.get_mut(&self.key).filter(|record| record.number == self.number) {
            change(record);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let now = self.seats.clock.elapsed();
        self.with(|record| record.left_at = Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::time::{HOUR, UtcMs};

    fn at(offset: u64) -> Cursor {
        Cursor { start: 1, offset }
    }

    fn room() -> (Seats, ManualClock) {
        let clock = ManualClock::at(UtcMs(0));
        (Seats::new(Arc::new(clock.clone())), clock)
    }

    fn take(seats: &Seats, client: &str) -> Seat {
        seats.take(&"s".parse().unwrap(), &client.parse().unwrap(), HOUR)
    }

    #[test]
    fn a_seat_is_kept_for_its_time_and_a_return_cancels_its_end() {
        let (seats, clock) = room();
        let first = take(&seats, "a");
        first.served(at(10));
        clock.advance(5 * HOUR);
        assert_eq!(seats.count(HOUR), 1, "who sits there is not forgotten");
        drop(first);
        clock.advance(HOUR - 1);
        let back = take(&seats, "a");
        assert_eq!(back.cursor, Some(at(10)));
        clock.advance(2 * HOUR);
        assert_eq!(seats.count(HOUR), 1, "it came back");
        drop(back);
        clock.sleep(HOUR);
        assert_eq!(seats.count(HOUR), 0, "exactly at its limit it is forgotten, asleep or not");
        assert_eq!(take(&seats, "a").cursor, None);
    }

    #[test]
    fn a_client_that_comes_again_takes_its_own_place() {
        let (seats, _clock) = room();
        let (first, other) = (take(&seats, "a"), take(&seats, "b"));
        first.served(at(10));
        let second = take(&seats, "a");
        assert!(first.replaced.is_cancelled() && !second.replaced.is_cancelled() && !other.replaced.is_cancelled());
        first.served(at(99));
        drop(first);
        assert_eq!((second.cursor, seats.count(HOUR)), (Some(at(10)), 2));
        drop(second);
        assert_eq!(take(&seats, "a").cursor, Some(at(10)), "the one that was replaced changes nothing any more");
    }

    #[test]
    fn there_are_never_more_than_so_many() {
        let (seats, clock) = room();
        for number in 0..MOST + 10 {
            clock.advance(1);
            drop(take(&seats, &format!("c{number}")));
        }
        assert_eq!(seats.count(HOUR), MOST);
        assert_eq!(take(&seats, "c0").cursor, None);
    }
}
