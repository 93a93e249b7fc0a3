//! The names under which a server may be called: the guard against names of strangers that point here. Pure.
//!
//! A page in a browser can send requests to any address, and a stranger's name may resolve to that of this machine. Such a
//! request still names the stranger in its Host header. So a name must be known: one of this machine, or one that is
//! listed. An address needs no resolving, so where strangers are meant to connect any address will do.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The names of every machine for itself.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "[::1]", "localhost"];

/// The names under which a server may be called. Compared letter by letter, as browsers write them: in small ones.
#[derive(Debug, Clone)]
pub struct Names {
    address: SocketAddr,
    listed: Arc<[String]>,
    tls: bool,
}

impl Names {
    /// Makes those of a server that listens on `address`. One of `listed` without a port is good with this server's port or
    /// none; one with a port, as where a proxy is in front, is good as it stands.
    #[must_use]
    pub fn new(address: SocketAddr, listed: &[String], tls: bool) -> Self {
        Self { address, listed: listed.into(), tls }
    }

    /// Returns whether a Host header names this server.
    #[must_use]
    pub fn know(&self, host: &str) -> bool {
        if self.listed.iter().any(|listed| listed == host) {
            return true;
        }
        let Some((name, port)) = split(host) else { return false };
        let own_port = port.is_none_or(|port| port == self.address.port().to_string());
        own_port && (LOOPBACK.contains(&name) || self.listed.iter().any(|listed| listed == name) || self.is_ours(name))
    }

    /// Returns whether `name` is an address that requests may be sent to.
    fn is_ours(&self, name: &str) -> bool {
        address(name).is_some_and(|ip| ip == self.address.ip() || !self.address.ip().is_loopback())
    }

    /// Returns whether an Origin header names this server, as it was called by `host`.
    #[must_use]
    pub fn are_origin(&self, origin: &str, host: &str) -> bool {
        let same = |scheme| origin.strip_prefix(scheme) == Some(host);
        // Under a name of its own it may be behind a proxy that speaks TLS for it.
        let listed = split(host).is_some_and(|(name, _)| self.listed.iter().any(|it| it == name || it == host));
        if self.tls { same("https://") } else { same("http://") || (listed && same("https://")) }
    }

    /// Writes them for a person who used another one.
    #[must_use]
    pub fn shown(&self) -> String {
        let port = self.address.port();
        let usual = LOOPBACK.iter().flat_map(|name| [(*name).to_owned(), format!("{name}:{port}")]);
        let mut names: Vec<String> = usual.chain(self.listed.iter().cloned()).collect();
        if !self.address.ip().is_loopback() {
            names.push("an address of it".to_owned());
        }
        names.join(" or ")
    }
}

/// Splits a Host header into name and port; none when it is neither a name nor an address.
fn split(host: &str) -> Option<(&str, Option<&str>)> {
    let (name, rest) = match host.find(']') {
        Some(end) if host.starts_with('[') => host.split_at(end + 1),
        _ => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => None,
        Some(port) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port),
        _ => return None,
    };
    Some((name, port))
}

/// Reads an address as it stands in a URL.
fn address(name: &str) -> Option<IpAddr> {
    match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(bare) => bare.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => name.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(address: &str, listed: &[&str], tls: bool) -> Names {
        let listed: Vec<String> = listed.iter().map(|name| (*name).to_owned()).collect();
        Names::new(address.parse().unwrap(), &listed, tls)
    }

    #[test]
    fn on_loopback_only_names_of_this_machine_are_known() {
        let names = names("127.0.0.1:7117", &[], false);
        for host in ["127.0.0.1", "127.0.0.1:7117", "localhost", "localhost:7117", "[::1]", "[::1]:7117"] {
            assert!(names.know(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "localhost.",
            "LOCALHOST",
            "localhost:7118",
            "localhost:",
            "localhost:+7117",
            "user@localhost",
            "127.0.0.2",
            "10.0.0.1:7117",
            "0.0.0.0:7117",
            "[::1",
            "[::1]7117",
            "::1",
            "",
        ] {
            assert!(!names.know(host), "{host}");
        }
    }

    #[test]
    fn beyond_loopback_addresses_are_known_and_names_must_be_listed() {
        let names = names("0.0.0.0:7117", &["sexton.example", "proxy.example:8443"], false);
        for host in [
            "10.0.0.1:7117",
            "192.168.1.2",
            "[2001:db8::1]:7117",
            "localhost:7117",
            "sexton.example",
            "sexton.example:7117",
            "proxy.example:8443",
        ] {
            assert!(names.know(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7117",
            "10.0.0.1:80",
            "sexton.example:8443",
            "sexton.example.evil.example",
            "evil.sexton.example",
            "SEXTON.example",
            "proxy.example",
            "10.0.0.1.nip.io",
            "010.0.0.1",
            "2130706433",
            "[::ffff:10.0.0.1",
        ] {
            assert!(!names.know(host), "{host}");
        }
    }

    #[test]
    fn a_listed_name_is_known_on_loopback_too_where_a_proxy_is_in_front() {
        let names = names("127.0.0.1:7117", &["sexton.example"], false);
        assert!(names.know("sexton.example") && !names.know("10.0.0.1"));
    }

    #[test]
    fn an_origin_is_scheme_and_host_of_the_request() {
        let plain = names("0.0.0.0:7117", &["sexton.example", "proxy.example:8443"], false);
        assert!(plain.are_origin("http://10.0.0.1:7117", "10.0.0.1:7117"));
        assert!(!plain.are_origin("https://10.0.0.1:7117", "10.0.0.1:7117"), "nobody speaks TLS for an address");
        assert!(!plain.are_origin("http://10.0.0.2:7117", "10.0.0.1:7117"));
        for origin in ["http://sexton.example", "https://sexton.example"] {
            assert!(plain.are_origin(origin, "sexton.example"), "{origin}");
        }
        assert!(plain.are_origin("https://proxy.example:8443", "proxy.example:8443"));
        let secured = names("0.0.0.0:7117", &["sexton.example"], true);
        assert!(secured.are_origin("https://sexton.example", "sexton.example"));
        for origin in ["http://sexton.example", "null", "https://evil.example", "https://sexton.example.evil.example"] {
            assert!(!secured.are_origin(origin, "sexton.example"), "{origin}");
        }
    }
}
