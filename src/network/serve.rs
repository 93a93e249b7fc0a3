//! Serving requests to whoever reaches the port, so that nobody without a token can hold it.
//!
//! What a stranger can hold is a connection. So each has a time for the head of a request and for its body, and there
//! are only so many: at the most, the one that has had no request in work for longest makes room for the next. An answer
//! may take as long as it takes, since streams of events go on for days.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::network::body::{Held, Timely};
use crate::network::listener::{Listener, Stream, secured};
use crate::network::seats::{Seat, Seats};

/// How long a client may take to shake hands.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// How long a client that has to go may take, at the least, to take what it was answered before.
const LAST_ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What a client may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeLimits {
    /// How long it may take to send the head of a request: the first one after it connected, a further one after the last
    /// answer. So it is also how long a connection without requests is kept.
    pub head: Duration,
    /// How long it may take to send the body of a request.
    pub body: Duration,
    /// How many connections there are at once; further clients wait in the kernel's queue.
    pub connections: usize,
}

impl ServeLimits {
    /// Returns the usual ones.
    #[must_use]
    pub fn usual() -> Self {
        // The head is above the time for which clients keep connections (the worker: 4 s), since a request that meets a
        // closing one is lost. A megabyte at 300 kbit/s is a body in 30 s.
        Self { head: Duration::from_secs(15), body: Duration::from_secs(30), connections: most_connections() }
    }
}

/// Returns a third of the descriptors that this process may have: a client that is attached takes another one, towards a
/// runner or an engine's log, and store and engines need theirs whatever clients do.
fn most_connections() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok());
    (descriptors.unwrap_or(usize::MAX) / 3).clamp(16, 4096)
}

/// Answers requests on `listener` until `stop`; then takes none any more, and returns once those that are in work are
/// answered. Connections go on without it if it is dropped before.
pub async fn serve(mut listener: Listener, router: Router, limits: ServeLimits, stop: CancellationToken) {
    let (seats, open) = (Seats::new(limits.connections), TaskTracker::new());
    loop {
        let next = async {
            let (stream, from) = listener.accept().await;
            (stream, from, seats.take(stop.child_token()).await)
        };
        let (stream, from, seat) = tokio::select! {
            () = stop.cancelled() => break,
            next = next => next,
        };
        let client = Client { from, router: router.clone(), limits, seat: Arc::new(seat) };
        open.spawn(client.attend(stream, listener.acceptor()));
    }
    drop(listener);
    open.close();
    open.wait().await;
}

/// Returns once a connection has been without a request in work for a while: its last answer was handed over, and the client
/// may not take it.
async fn takes_nothing(seat: &Seat) {
    let mut idle = false;
    loop {
        sleep(LAST_ANSWER_WITHIN).await;
        if idle && !seat.is_busy() {
            return;
        }
        idle = !seat.is_busy();
    }
}

/// One connection.
struct Client {
    from: SocketAddr,
    router: Router,
    limits: ServeLimits,
    seat: Arc<Seat>,
}

impl Client {
    /// Answers what it asks until it is done, or has to go.
    async fn attend(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(from = %self.from, %error, "events may reach a client a moment late");
        }
        let secured = tokio::select! {
            () = self.seat.told_to_go() => return,
            secured = timeout(HANDSHAKE_WITHIN, secured(tls, stream)) => secured,
        };
        match secured {
            Ok(Ok(stream)) => self.answer(stream).await,
            Ok(Err(error)) => tracing::debug!(from = %self.from, %error, "a client could not agree on TLS"),
            Err(_) => tracing::debug!(from = %self.from, "a client was too slow with TLS"),
        }
    }

    async fn answer(self, stream: Stream) {
        let (from, seat, limits) = (self.from, Arc::clone(&self.seat), self.limits);
        let router = TowerToHyperService::new(self.router);
        let service = service_fn(move |request: Request<Incoming>| {
            let busy = self.seat.busy();
            let answering = router.call(request.map(|body| Body::new(Timely::new(body, limits.body))));
            async move { answering.await.map(|response| response.map(|body| Held::new(body, busy))) }
        });
        let mut http = http1::Builder::new();
        let http = http.timer(TokioTimer::new()).header_read_timeout(limits.head);
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        let served = tokio::select! {
            served = connection.as_mut() => served,
            // Nobody waits for an answer where nothing was asked.
            () = seat.told_to_go() => {
                if !seat.was_asked() {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    served = connection => served,
                    () = takes_nothing(&seat) => return,
                }
            }
        };
        if let Err(error) = served {
            tracing::debug!(%from, %error, "a connection ended early");
        }
    }
}
