//! The base URL of a runner, as a person writes it. Pure.

use std::net::IpAddr;

use axum::http::Uri;
use axum::http::uri::PathAndQuery;

/// Reads the base URL of a runner, and returns it without a slash at its end.
///
/// # Errors
/// One sentence, when it is no `http://host:port` or `https://host:port`, or holds anything beside.
pub(crate) fn base_url(text: &str) -> Result<String, String> {
    let refused = |why: &str| format!("{text:?} is no address of a runner: {why}, as in http://127.0.0.1:7118");
    if text.contains('#') {
        return Err(refused("it may have no fragment"));
    }
    let uri: Uri = text.parse().map_err(|_| refused("a URL is needed"))?;
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme));
    let scheme = scheme.ok_or_else(|| refused("it must begin with http:// or https://"))?;
    let authority = uri.authority().ok_or_else(|| refused("it must name a host"))?;
    if authority.as_str().contains('@') {
        return Err(refused("a name or password in it would be shown around"));
    }
    if uri.path_and_query().map_or("/", PathAndQuery::as_str) != "/" {
        return Err(refused("it may have no path and no query"));
    }
    let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    if authority.host().is_empty() || (!port.is_empty() && authority.port_u16().is_none_or(|port| port == 0)) {
        return Err(refused("host and port cannot be read"));
    }
    Ok(format!("{scheme}://{authority}"))
}

/// Returns whether a runner at this base URL would be sent its secret where others can read it: through a network, and not
/// encrypted.
pub(crate) fn is_open_to_read(url: &str) -> bool {
    url.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("http") && !uri.host().is_some_and(is_loopback))
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{base_url, is_open_to_read};

    #[test]
    fn a_secret_is_not_open_to_read_on_this_machine_or_with_tls() {
        for url in ["http://127.0.0.1:7118", "http://[::1]:80", "http://localhost", "https://runner.example:7118"] {
            assert!(!is_open_to_read(url), "{url}");
        }
        for url in ["http://runner.example:7118", "http://10.0.0.7:7118", "http://127.0.0.1.example"] {
            assert!(is_open_to_read(url), "{url}");
        }
    }

    #[test]
    fn a_base_url_is_taken() {
        for (text, url) in [
            ("http://127.0.0.1:7118", "http://127.0.0.1:7118"),
            ("http://127.0.0.1:7118/", "http://127.0.0.1:7118"),
            ("https://localhost", "https://localhost"),
            ("http://[::1]:80", "http://[::1]:80"),
            ("https://runner.example:7118/", "https://runner.example:7118"),
            ("http://192.168.1.2:7118", "http://192.168.1.2:7118"),
        ] {
            assert_eq!(base_url(text).as_deref(), Ok(url), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_what_is_wrong() {
        for (text, why) in [
            ("", "a URL is needed"),
            ("127.0.0.1:7118", "must begin with http"),
            ("ftp://127.0.0.1", "must begin with http"),
            ("http://ada:secret@127.0.0.1:7118", "shown around"),
            ("http://127.0.0.1:7118/coding", "no path"),
            ("http://127.0.0.1:7118?x=1", "no path and no query"),
            ("http://127.0.0.1:7118#x", "no fragment"),
            ("http://127.0.0.1:99999", "cannot be read"),
            ("http://127.0.0.1:0", "cannot be read"),
        ] {
            let refused = base_url(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
