//! What a daemon is reached through: a port, in the clear or with TLS, the names under which it may be called, and how
//! long a client may take.
//!
//! Worker and runner listen alike, so both use this; it knows nothing of either. Who may come in is theirs to decide.

mod body;
mod listener;
mod names;
mod seats;
mod serve;
mod tls;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub use listener::{Listener, Stream};
pub use names::Names;
pub use serve::{ServeLimits, serve};
pub use tls::{Tls, others_may_read};

/// Returns under which address this machine reaches what listens on `address`: one of its own where that is all of them.
#[must_use]
pub fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let own: IpAddr = if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    SocketAddr::new(own, address.port())
}

#[cfg(test)]
mod tests {
    use super::reachable;

    #[test]
    fn all_addresses_are_reached_under_one_of_this_machine() {
        for (listens, reached) in [
            ("0.0.0.0:7117", "127.0.0.1:7117"),
            ("[::]:7117", "[::1]:7117"),
            ("127.0.0.1:7117", "127.0.0.1:7117"),
            ("192.168.1.2:7117", "192.168.1.2:7117"),
        ] {
            assert_eq!(reachable(listens.parse().unwrap()), reached.parse().unwrap());
        }
    }
}
