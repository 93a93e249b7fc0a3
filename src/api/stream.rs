//! What all streams of the API have in common: from where a client goes on, and for how long its token lets it listen.

use std::str::FromStr;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::api::access::authenticate;
use crate::api::error::{ApiError, ErrorCode};
use crate::api::hosts::single;
use crate::api::state::Shared;
use crate::time::{Ms, SECOND};

/// How often the token of an open stream is looked up again.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(20);

/// The same, on the clock of the tools.
const LOOK_AGAIN_MS: Ms = 20 * SECOND;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Reads what a client that comes back by itself, as a browser's source of events does, says in a header.
///
/// # Errors
/// When the header stands there more than once, or is no id of an event.
pub(super) fn last_event<T: FromStr>(headers: &HeaderMap) -> Result<Option<T>, ApiError> {
    if !headers.contains_key(&LAST_EVENT_ID) {
        return Ok(None);
    }
    let cursor = single(headers, &LAST_EVENT_ID).and_then(|id| id.parse().ok());
    let bad = || ApiError::new(ErrorCode::BadQuery, "Last-Event-ID must stand there once and be the id of an event");
    cursor.map(Some).ok_or_else(bad)
}

/// What lets a client listen: the token that it opened its stream with, for as long as that holds.
pub(super) struct Permit {
    holds: Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
    elapsed: Box<dyn Fn() -> Ms + Send + Sync>,
    /// When it was last seen to hold.
    seen_at: Ms,
}

impl Permit {
    /// Makes one out of the headers of a request that was let in just now.
    pub(super) fn new(api: &Shared, headers: &HeaderMap) -> Self {
        let (asked, timed, headers) = (api.clone(), api.clone(), headers.clone());
        let holds = move || still_holds(asked.clone(), headers.clone()).boxed();
        let elapsed = move || timed.tools().clock.elapsed();
        let seen_at = elapsed();
        Self { holds: Box::new(holds), elapsed: Box::new(elapsed), seen_at }
    }

    /// Returns whether it holds, to be asked before anything is handed out: the token is looked up when that was last done
    /// [`LOOK_AGAIN`] ago.
    pub(super) async fn holds(&mut self) -> bool {
        (self.elapsed)() - self.seen_at < LOOK_AGAIN_MS || self.look().await
    }

    /// Looks the token up now.
    pub(super) async fn look(&mut self) -> bool {
        let now = (self.elapsed)();
        let holds = (self.holds)().await;
        // Not before: who stops waiting for the answer has seen nothing.
        if holds {
            self.seen_at = now;
        }
        holds
    }

    /// Makes one for a test, whose token holds or does not.
    #[cfg(test)]
    pub(super) fn of(holds: bool) -> Self {
        Self { holds: Box::new(move || std::future::ready(holds).boxed()), elapsed: Box::new(|| 0), seen_at: 0 }
    }
}

/// Returns whether the token that opened a stream still does; a store that fails takes nobody's right away.
async fn still_holds(api: Shared, headers: HeaderMap) -> bool {
    authenticate(&api, &headers).await.map_or_else(|error| error.code != ErrorCode::Unauthorised, |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Cursor;

    fn read<T: FromStr>(values: &[&'static str]) -> Result<Option<T>, ErrorCode> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(LAST_EVENT_ID, value.parse().unwrap());
        }
        last_event(&headers).map_err(|error| error.code)
    }

    #[test]
    fn the_last_event_is_an_id_of_its_stream_that_stands_there_once() {
        assert_eq!((read::<u64>(&[]), read(&["0"]), read(&["17"])), (Ok(None), Ok(Some(0)), Ok(Some(17))));
        for nonsense in [&["x"][..], &[""], &["-1"], &["1.5"], &["99999999999999999999"], &["1", "1"], &["1", "x"]] {
            assert_eq!(read::<u64>(nonsense), Err(ErrorCode::BadQuery), "{nonsense:?}");
        }
        assert_eq!(read(&["3-17"]), Ok(Some(Cursor { start: 3, offset: 17 })));
        for nonsense in [&["17"][..], &["3-17", "3-17"]] {
            assert_eq!(read::<Cursor>(nonsense), Err(ErrorCode::BadQuery), "{nonsense:?}");
        }
    }

    #[tokio::test]
    async fn a_token_is_looked_up_when_its_time_is_over_and_whenever_that_is_asked_for() {
        let mut revoked = Permit::of(false);
        assert!(revoked.holds().await, "it was let in just now");
        revoked.seen_at = -LOOK_AGAIN_MS;
        assert!(!revoked.holds().await);
        let mut held = Permit { seen_at: -LOOK_AGAIN_MS, ..Permit::of(true) };
        assert!(held.holds().await && held.seen_at == 0);
        assert!(!Permit::of(false).look().await);
    }
}
