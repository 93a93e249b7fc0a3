//! Refuses webhooks that could never be delivered to, or that cannot be told apart.

use std::collections::BTreeSet;
use std::path::Path;

use crate::config::{Config, WebhookConfig};
use crate::time::{SECOND, compact};

/// An attempt may take no longer, so that a receiver that hangs does not hold up passes.
const LONGEST_ATTEMPT: i64 = 30 * SECOND;

/// Every webhook has a name of its own, an address, a secret and something to be told of.
pub(super) fn webhooks(config: &Config, faults: &mut Vec<String>) {
    let mut names = BTreeSet::new();
    for (at, hook) in config.webhooks.iter().enumerate() {
        if !names.insert(&hook.name) {
            faults.push(format!(
                "webhooks[{at}].name is {:?}, as that of an earlier one: give it another",
                hook.name.as_str()
            ));
        }
        faults.extend(fault(hook).map(|(key, why)| format!("webhooks[{at}].{key} of {} {why}", hook.name)));
    }
    let timeout = config.limits.webhook_timeout;
    if timeout.0 > LONGEST_ATTEMPT {
        faults.push(format!(
            "limits.webhook_timeout ({}) may be at most 30s: a receiver that hangs would hold up passes",
            compact(timeout.0)
        ));
    }
}

fn fault(hook: &WebhookConfig) -> Option<(&'static str, &'static str)> {
    if let Some(why) = url_fault(&hook.url) {
        return Some(("url", why));
    }
    if !Path::new(&hook.secret_file).is_absolute() {
        return Some(("secret_file", "must be an absolute path"));
    }
    hook.events.is_empty().then_some(("events", "is empty: it would never be told of anything"))
}

fn url_fault(url: &str) -> Option<&'static str> {
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return Some("must begin with http:// or https://");
    };
    if url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '#') {
        return Some("must hold no white space and no fragment");
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Some("must hold no user and no password; what is sent is signed");
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    if host.is_empty() {
        return Some("names no host");
    }
    port.is_some_and(|port| port.parse::<u16>().is_err()).then_some("names no port behind its colon")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check;
    use crate::time::Span;

    fn hook(change: impl FnOnce(&mut WebhookConfig)) -> WebhookConfig {
        let text = "name = \"boss\"\nurl = \"https://boss.example/hook?x=1\"\nsecret_file = \"/s\"";
        let mut hook: WebhookConfig = toml::from_str(text).unwrap();
        change(&mut hook);
        hook
    }

    fn faults(hooks: Vec<WebhookConfig>) -> Vec<String> {
        let config = Config { webhooks: hooks, ..Config::defaults() };
        check(&config).err().map_or_else(Vec::new, |found| found.0)
    }

    #[test]
    fn what_can_be_delivered_to_is_fine() {
        for url in ["http://127.0.0.1:9/x", "https://[::1]", "https://[::1]:9/", "http://host", "http://h?x=http://y"] {
            assert_eq!(faults(vec![hook(|hook| url.clone_into(&mut hook.url))]), Vec::<String>::new(), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_key_and_name() {
        for url in ["", "ftp://x", "https://", "https:///x", "http://a:b@c", "http://a b", "http://a#b", "http://a:x"] {
            let found = faults(vec![hook(|hook| url.clone_into(&mut hook.url))]);
            assert!(found.len() == 1 && found[0].starts_with("webhooks[0].url of boss "), "{url}: {found:?}");
        }
        let found = faults(vec![hook(|hook| "secret".clone_into(&mut hook.secret_file))]);
        assert!(found.len() == 1 && found[0].starts_with("webhooks[0].secret_file of boss "), "{found:?}");
        let found = faults(vec![hook(|hook| hook.events.clear())]);
        assert!(found.len() == 1 && found[0].starts_with("webhooks[0].events of boss "), "{found:?}");
        let found = faults(vec![hook(|_| ()), hook(|_| ())]);
        assert!(found.len() == 1 && found[0].starts_with("webhooks[1].name is \"boss\""), "{found:?}");
    }

    #[test]
    fn an_attempt_is_short() {
        let mut config = Config::defaults();
        config.limits.webhook_timeout = Span(LONGEST_ATTEMPT + 1);
        let found = check(&config).unwrap_err().0;
        assert!(found.len() == 1 && found[0].starts_with("limits.webhook_timeout"), "{found:?}");
    }
}
