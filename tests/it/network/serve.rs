//! What a client may take of a port: no stranger holds it, and who belongs there is answered for as long as it takes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::routing::{get, post};
use futures_util::stream;
use sexton::network::{Listener, ServeLimits, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes.
const MOST: Duration = Duration::from_secs(10);

/// Longer than any test: what is let go, is so for another reason.
const NEVER: Duration = Duration::from_secs(600);

const SOON: Duration = Duration::from_millis(100);

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// What the streams of the server say.
type Said = Arc<Mutex<mpsc::Receiver<&'static str>>>;

/// A server of three small routes.
struct Served {
    address: SocketAddr,
    say: mpsc::Sender<&'static str>,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

async fn events(State(said): State<Said>) -> Body {
    let said = said.lock_owned().await;
    Body::from_stream(stream::unfold(said, async |mut said| {
        let next = said.recv().await?;
        Some((Ok::<_, Infallible>(Bytes::from(next)), said))
    }))
}

impl Served {
    async fn start(limits: ServeLimits) -> Self {
        let (say, said) = mpsc::channel(8);
        let router = Router::new()
            .route("/", get(async || "here"))
            .route("/body", post(async |body: Bytes| body))
            .route("/events", get(events))
            .with_state(Arc::new(Mutex::new(said)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let served = tokio::spawn(serve(Listener::from(listener), router, limits, stop.clone()));
        Self { address, say, stop, served }
    }

    async fn client(&self, said: &[u8]) -> TcpStream {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(said).await.unwrap();
        client
    }

    /// Asks over a connection of its own and returns all of the answer.
    async fn ask(&self, request: &str) -> String {
        let mut client = self.client(request.as_bytes()).await;
        rest(&mut client).await
    }

    /// Stops it, which must not take long.
    async fn stop(self) {
        self.stop.cancel();
        timeout(MOST, self.served).await.expect("the stop takes too long").unwrap();
    }
}

/// Reads until what was read ends so.
async fn until(client: &mut TcpStream, end: &str) -> String {
    let mut read = Vec::new();
    let reading = async {
        while !read.ends_with(end.as_bytes()) {
            read.push(client.read_u8().await.unwrap());
        }
    };
    timeout(MOST, reading).await.expect("it is left waiting");
    String::from_utf8(read).unwrap()
}

/// Reads until the connection is closed.
async fn rest(client: &mut TcpStream) -> String {
    let mut read = Vec::new();
    // A reset is a close, too.
    drop(timeout(MOST, client.read_to_end(&mut read)).await.expect("it is never let go"));
    String::from_utf8(read).unwrap()
}

fn limits() -> ServeLimits {
    ServeLimits { head: NEVER, body: NEVER, connections: 64 }
}

const CLOSING: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn who_sends_nothing_or_half_a_head_is_let_go() {
    let served = Served::start(ServeLimits { head: SOON, ..limits() }).await;
    for said in ["", "GET / HTT", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
        assert_eq!(served.ask(said).await, "", "{said:?}");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_connection_without_further_requests_is_let_go() {
    let served = Served::start(ServeLimits { head: SOON, ..limits() }).await;
    let answer = served.ask(str::from_utf8(GET).unwrap()).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
    served.stop().await;
}

#[tokio::test]
async fn silent_clients_at_the_cap_keep_nobody_out() {
    let served = Served::start(ServeLimits { connections: 4, ..limits() }).await;
    let mut silent = Vec::new();
    for said in ["", "GET / HTT", "", "GET"].repeat(4) {
        silent.push(served.client(said.as_bytes()).await);
    }
    let answer = served.ask(CLOSING).await;
    assert!(answer.ends_with("here"), "{answer}");
    // The oldest went first.
    assert_eq!(rest(&mut silent[0]).await, "");
    served.stop().await;
}

#[tokio::test]
async fn clients_that_were_answered_and_stay_keep_nobody_out() {
    let served = Served::start(ServeLimits { connections: 2, ..limits() }).await;
    let mut staying = Vec::new();
    for _ in 0..6 {
        let mut client = served.client(GET).await;
        until(&mut client, "here").await;
        staying.push(client);
    }
    // The last ones may go on; those before made room for them.
    staying[5].write_all(GET).await.unwrap();
    until(&mut staying[5], "here").await;
    assert_eq!(rest(&mut staying[0]).await, "");
    served.stop().await;
}

#[tokio::test]
async fn a_request_in_work_makes_no_room_and_the_next_client_waits() {
    let served = Served::start(ServeLimits { connections: 1, ..limits() }).await;
    let mut listening = served.client(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    until(&mut listening, "\r\n\r\n").await;
    let mut waiting = served.client(CLOSING.as_bytes()).await;
    served.say.send("one").await.unwrap();
    until(&mut listening, "one\r\n").await;
    let early = timeout(SOON, waiting.read_u8()).await;
    assert!(early.is_err(), "it is answered beside a stream that has the only place");
    drop(listening);
    assert!(rest(&mut waiting).await.ends_with("here"));
    served.stop().await;
}

#[tokio::test]
async fn a_body_that_trickles_in_is_cut() {
    let served = Served::start(ServeLimits { body: SOON, ..limits() }).await;
    let head = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n";
    let (mut reading, mut writing) = served.client(head).await.into_split();
    let trickling = tokio::spawn(async move {
        while writing.write_all(b"x").await.is_ok() {
            tokio::time::sleep(SOON / 10).await;
        }
    });
    let mut answer = Vec::new();
    drop(timeout(MOST, reading.read_to_end(&mut answer)).await.expect("it is never let go"));
    assert!(answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
    timeout(MOST, trickling).await.expect("it is read for ever").unwrap();
    served.stop().await;
}

#[tokio::test]
async fn a_body_that_is_there_in_time_is_read_whole() {
    let served = Served::start(limits()).await;
    let mut client = served.client(b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nabc").await;
    client.write_all(b"def").await.unwrap();
    let answer = until(&mut client, "abcdef").await;
    assert!(answer.contains("content-length: 6"), "its length is known as before: {answer}");
    served.stop().await;
}

#[tokio::test]
async fn a_stream_outlives_every_limit() {
    let served = Served::start(ServeLimits { head: SOON, body: SOON, connections: 8 }).await;
    let mut listening = served.client(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    until(&mut listening, "\r\n\r\n").await;
    for event in ["one", "two", "three"] {
        // Whoever came after it and says nothing is gone by then.
        assert_eq!(served.ask("").await, "");
        served.say.send(event).await.unwrap();
        until(&mut listening, &format!("{event}\r\n")).await;
    }
    drop(listening);
    served.stop().await;
}

#[tokio::test]
async fn a_stop_answers_what_is_in_work_and_waits_for_nobody_else() {
    let served = Served::start(limits()).await;
    let (mut silent, mut half) = (served.client(b"").await, served.client(b"GET / HTT").await);
    let mut staying = served.client(GET).await;
    until(&mut staying, "here").await;
    let mut listening = served.client(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    until(&mut listening, "\r\n\r\n").await;
    served.stop.cancel();
    for client in [&mut silent, &mut half, &mut staying] {
        assert_eq!(rest(client).await, "");
    }
    assert!(TcpStream::connect(served.address).await.is_err(), "nobody else comes in");
    served.say.send("last").await.unwrap();
    until(&mut listening, "last\r\n").await;
    assert!(!served.served.is_finished(), "a stream is in work until it ends");
    let Served { say, served, .. } = served;
    drop(say);
    assert_eq!(rest(&mut listening).await, "0\r\n\r\n");
    timeout(MOST, served).await.expect("the stop takes too long").unwrap();
}
