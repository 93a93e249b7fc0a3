//! Refuses addresses, names and certificates of the daemons that cannot be meant.

use crate::config::Config;

/// Where worker and runner listen, and under which names.
pub(super) fn network(config: &Config, faults: &mut Vec<String>) {
    let (server, runner) = (&config.server, &config.runner);
    if server.listen == runner.listen && server.listen.port() != 0 {
        faults
            .push(format!("server.listen and runner.listen are both {}: give one of them another port", server.listen));
    }
    tls("server", (&server.tls_cert, &server.tls_key), faults);
    tls("runner", (&runner.tls_cert, &runner.tls_key), faults);
    hosts("server", &server.hosts, faults);
    hosts("runner", &runner.hosts, faults);
    if !server.url.is_empty() && !is_url(&server.url) {
        faults.push(format!(
            "server.url is {:?}: it must be http:// or https:// with a host and nothing behind it, such as \"https://sexton.example\"",
            server.url
        ));
    }
}

/// A certificate without its key, or a key without a certificate, would serve nobody.
fn tls(table: &str, (cert, key): (&str, &str), faults: &mut Vec<String>) {
    if cert.is_empty() != key.is_empty() {
        faults.push(format!("{table}.tls_cert and {table}.tls_key belong together: name both files, or neither"));
    }
}

/// A name is compared with what browsers and programs send, letter by letter.
fn hosts(table: &str, hosts: &[String], faults: &mut Vec<String>) {
    if let Some(bad) = hosts.iter().find(|host| !is_host(host)) {
        faults.push(format!(
            "{table}.hosts: {bad:?} is no name as it stands in a URL: small letters, digits, \"-\" and \".\", where needed with \":PORT\""
        ));
    }
}

fn is_host(text: &str) -> bool {
    // An address of version 6 stands in brackets.
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (text, "1"),
    };
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let named = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.bytes().all(letter),
    };
    named && port.parse::<u16>().is_ok_and(|port| port != 0)
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|host| is_host(host.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, check};

    fn faults(change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = Config::defaults();
        change(&mut config);
        check(&config).err().map_or_else(Vec::new, |found| found.0)
    }

    #[test]
    fn any_address_may_be_listened_on() {
        for address in ["127.0.0.1:0", "127.9.9.9:1", "[::1]:7117", "0.0.0.0:7117", "[::]:7117", "192.168.1.2:7117"] {
            assert!(faults(|c| c.server.listen = address.parse().unwrap()).is_empty(), "{address}");
            assert!(faults(|c| c.runner.listen = address.parse().unwrap()).len() < 2, "{address}");
        }
    }

    #[test]
    fn worker_and_runner_need_two_ports() {
        let found = faults(|c| c.runner.listen = c.server.listen);
        assert!(found[0].contains("server.listen and runner.listen"), "{found:?}");
        let any_port = "127.0.0.1:0".parse().unwrap();
        assert!(faults(|c| (c.runner.listen, c.server.listen) = (any_port, any_port)).is_empty());
    }

    #[test]
    fn a_certificate_and_its_key_come_together() {
        assert!(faults(|c| c.server.tls_cert = "/c.pem".to_owned())[0].starts_with("server.tls_cert and"));
        assert!(faults(|c| c.runner.tls_key = "/k.pem".to_owned())[0].starts_with("runner.tls_cert and"));
        let both = |c: &mut Config| {
            (c.server.tls_cert, c.server.tls_key) = ("/c.pem".to_owned(), "/k.pem".to_owned());
        };
        assert_eq!(faults(both), Vec::<String>::new());
    }

    #[test]
    fn names_are_written_as_in_urls() {
        for good in ["sexton.example", "sexton", "sexton.example:8443", "10.0.0.1:8443", "[2001:db8::1]:80", "[::1]"] {
            assert!(faults(|c| c.server.hosts = vec![good.to_owned()]).is_empty(), "{good}");
        }
        for bad in
            ["", "*.example", "Sexton.example", "https://sexton.example", "a/b", "a:", "a:0", "::1", "a b", "a@b"]
        {
            let found = faults(|c| c.runner.hosts = vec!["a".to_owned(), bad.to_owned()]);
            assert!(found.len() == 1 && found[0].starts_with("runner.hosts: "), "{bad}: {found:?}");
        }
    }

    #[test]
    fn the_url_for_engines_is_a_base() {
        for good in ["https://sexton.example", "http://10.0.0.1:7117/"] {
            assert!(faults(|c| good.clone_into(&mut c.server.url)).is_empty(), "{good}");
        }
        for bad in ["sexton.example", "https://", "https://a/v1", "ftp://a", "https://ann:pw@a"] {
            assert!(faults(|c| bad.clone_into(&mut c.server.url))[0].starts_with("server.url"), "{bad}");
        }
    }

    #[test]
    fn engines_find_the_api_where_it_is() {
        let url = |change: fn(&mut Config)| {
            let mut config = Config::defaults();
            change(&mut config);
            config.server.api_url()
        };
        assert_eq!(url(|_| ()).as_deref(), Some("http://127.0.0.1:7117"));
        assert_eq!(url(|c| c.server.listen.set_port(0)), None);
        let secured = url(|c| (c.server.tls_cert, c.server.listen) = ("x".to_owned(), "[::]:1".parse().unwrap()));
        assert_eq!(secured.as_deref(), Some("https://[::1]:1"));
        assert_eq!(url(|c| c.server.url = "https://a.example/".to_owned()).as_deref(), Some("https://a.example"));
    }
}
