//! Taking a port of this machine.

use std::io::ErrorKind;
use std::net::SocketAddr;

use anyhow::{anyhow, bail};
use tokio::net::TcpListener;

/// Listens on `address`, which the setting `key` names.
///
/// # Errors
/// One sentence, when the address is not of this machine alone, is taken, or cannot be used.
pub(crate) async fn bind(key: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    // The settings are checked for this when they are read; here it is what keeps strangers out.
    if !address.ip().is_loopback() {
        bail!(
            "{key} is {address}, but this version serves one owner on this machine only: listen on a loopback address"
        );
    }
    TcpListener::bind(address).await.map_err(|error| {
        if error.kind() != ErrorKind::AddrInUse {
            return anyhow!("{key}: cannot listen on {address}: {error}");
        }
        anyhow!(
            "{address} is taken: another program, or another Sexton, listens there; stop it, or set {key} to another port"
        )
    })
}
