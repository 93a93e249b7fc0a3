//! A port that is listened on, in the clear or with TLS. A client that is slow to shake hands holds up nobody else.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::serve::Listener as Accept;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::network::names::Names;
use crate::network::tls::Tls;

/// How long a client may take to shake hands.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// So many clients may be shaking hands at once; further ones wait in the kernel's queue.
const HANDSHAKES_MOST: usize = 512;

/// A connection, in the clear or with TLS.
pub type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A port that is listened on.
pub struct Listener {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
    /// The clients that are shaking hands; none stays when the listener goes.
    handshakes: JoinSet<Option<(Stream, SocketAddr)>>,
    hosts: Vec<String>,
}

impl From<TcpListener> for Listener {
    /// Listens in the clear, under the names that need not be listed.
    fn from(tcp: TcpListener) -> Self {
        Self { tcp, tls: None, handshakes: JoinSet::new(), hosts: Vec::new() }
    }
}

impl Listener {
    /// Speaks TLS where there is a certificate to do it with.
    #[must_use]
    pub fn with_tls(self, tls: Option<Tls>) -> Self {
        Self { tls: tls.map(|tls| TlsAcceptor::from(tls.server)), ..self }
    }

    /// May be called under these names too.
    #[must_use]
    pub fn with_hosts(self, hosts: &[String]) -> Self {
        Self { hosts: hosts.to_vec(), ..self }
    }

    /// Lets clients go that take nothing of what is sent to them for this long; connections inherit it.
    ///
    /// # Errors
    /// When the system has no such thing.
    pub fn let_go_after(&self, silence: Duration) -> io::Result<()> {
        let milliseconds = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
        Ok(rustix::net::sockopt::set_tcp_user_timeout(&self.tcp, milliseconds)?)
    }

    /// Returns the address that is listened on.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Returns `https` or `http`.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Returns the names under which it may be called.
    ///
    /// # Errors
    /// When the system does not tell the address.
    pub fn names(&self) -> io::Result<Names> {
        Ok(Names::new(self.address()?, &self.hosts, self.tls.is_some()))
    }
}

impl Accept for Listener {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Stream, SocketAddr) {
        let Some(acceptor) = &self.tls else {
            let (stream, from) = Accept::accept(&mut self.tcp).await;
            return (Either::Left(stream), from);
        };
        loop {
            let room = self.handshakes.len() < HANDSHAKES_MOST;
            tokio::select! {
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(accepted)) = done {
                        return accepted;
                    }
                }
                (stream, from) = Accept::accept(&mut self.tcp), if room => {
                    self.handshakes.spawn(shake_hands(acceptor.clone(), stream, from));
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.address()
    }
}

/// Makes a connection with TLS out of one in the clear; none with a client that cannot or is too slow.
async fn shake_hands(acceptor: TlsAcceptor, stream: TcpStream, from: SocketAddr) -> Option<(Stream, SocketAddr)> {
    match timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some((Either::Right(Box::new(stream)), from)),
        Ok(Err(error)) => {
            tracing::debug!(%from, %error, "a client could not agree on TLS");
            None
        }
        Err(_) => {
            tracing::debug!(%from, "a client was too slow with TLS");
            None
        }
    }
}
