//! A port that is listened on, in the clear or with TLS.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::serve::Listener as Accept;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::network::names::Names;
use crate::network::tls::Tls;

/// A connection, in the clear or with TLS.
pub type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A port that is listened on.
pub struct Listener {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
    hosts: Vec<String>,
}

impl From<TcpListener> for Listener {
    /// Listens in the clear, under the names that need not be listed.
    fn from(tcp: TcpListener) -> Self {
        Self { tcp, tls: None, hosts: Vec::new() }
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

    /// Waits for a client. What the system fails to do is logged and tried again.
    pub(super) async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        Accept::accept(&mut self.tcp).await
    }

    /// Returns what shakes hands with its clients, where it speaks TLS.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.tls.clone()
    }
}

/// Makes of a connection in the clear the one that requests come through.
///
/// # Errors
/// When the client cannot agree on TLS.
pub(super) async fn secured(tls: Option<TlsAcceptor>, stream: TcpStream) -> io::Result<Stream> {
    match tls {
        None => Ok(Either::Left(stream)),
        Some(tls) => Ok(Either::Right(Box::new(tls.accept(stream).await?))),
    }
}
