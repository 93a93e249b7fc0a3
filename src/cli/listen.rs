//! Taking a port, with the certificate and the names that the settings say.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::anyhow;
use tokio::net::TcpListener;

use crate::config::{RunnerConfig, ServerConfig};
use crate::network::{Listener, Tls};

/// What the settings say about where a daemon listens.
pub(crate) struct Door<'a> {
    /// The table of the settings, for what is said about it.
    table: &'static str,
    /// The address.
    address: SocketAddr,
    hosts: &'a [String],
    cert: &'a str,
    key: &'a str,
}

impl<'a> From<&'a ServerConfig> for Door<'a> {
    fn from(config: &'a ServerConfig) -> Self {
        let ServerConfig { listen, hosts, tls_cert, tls_key, .. } = config;
        Self { table: "server", address: *listen, hosts, cert: tls_cert, key: tls_key }
    }
}

impl<'a> From<&'a RunnerConfig> for Door<'a> {
    fn from(config: &'a RunnerConfig) -> Self {
        let RunnerConfig { listen, hosts, tls_cert, tls_key, .. } = config;
        Self { table: "runner", address: *listen, hosts, cert: tls_cert, key: tls_key }
    }
}

impl Door<'_> {
    /// Reads certificate and key; none where none are named.
    ///
    /// # Errors
    /// One sentence, when they cannot be used.
    pub(crate) fn tls(&self) -> Result<Option<Tls>, String> {
        if self.cert.is_empty() {
            return Ok(None);
        }
        let tls = Tls::read(Path::new(self.cert), Path::new(self.key));
        tls.map(Some).map_err(|why| format!("{}.tls_cert: {why}", self.table))
    }

    /// Returns whether what passes here can be read on the way: others may connect, and nothing is encrypted.
    pub(crate) fn is_open_to_read(&self) -> bool {
        !self.address.ip().is_loopback() && self.cert.is_empty()
    }

    /// Says what that means.
    pub(crate) fn warning(&self) -> String {
        let Self { table, address, .. } = self;
        format!(
            "{table}.listen is {address}, beyond this machine, and nothing is encrypted there: put a proxy with TLS in front, or set {table}.tls_cert and {table}.tls_key"
        )
    }
}

/// Listens there.
///
/// # Errors
/// One sentence, when the certificate or its key cannot be used, or the address is taken or cannot be used.
pub(crate) async fn bind(door: impl Into<Door<'_>>) -> anyhow::Result<Listener> {
    let door = door.into();
    let Door { table, address, hosts, .. } = door;
    let tls = door.tls().map_err(|why| anyhow!(why))?;
    let tcp = TcpListener::bind(address).await.map_err(|error| {
        if error.kind() != ErrorKind::AddrInUse {
            return anyhow!("{table}.listen: cannot listen on {address}: {error}");
        }
        anyhow!(
            "{address} is taken: another program, or another Sexton, listens there; stop it, or set {table}.listen to another port"
        )
    })?;
    if door.is_open_to_read() {
        tracing::warn!("{}", door.warning());
    }
    Ok(Listener::from(tcp).with_tls(tls).with_hosts(hosts))
}
