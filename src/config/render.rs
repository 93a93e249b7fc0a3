//! Prints the effective settings as TOML, without what must not be shown around.

use crate::config::Config;

/// What stands in place of a value that may be a secret.
const HIDDEN: &str = "(hidden)";

/// Writes the settings as TOML that could be read again, without what may be a secret.
///
/// Hidden are the values of the engines' environment variables, a password in the store's URL and the paths of webhooks:
/// people paste this into bug reports.
#[must_use]
pub fn render(config: &Config) -> String {
    let mut shown = config.clone();
    shown.store.url = without_password(&shown.store.url);
    for value in shown.engines.values_mut().flat_map(|engine| engine.env.values_mut()) {
        HIDDEN.clone_into(value);
    }
    for hook in &mut shown.webhooks {
        hook.url = without_path(&hook.url);
    }
    toml::to_string(&shown).unwrap_or_else(|error| format!("# the settings cannot be printed: {error}\n"))
}

fn without_password(url: &str) -> String {
    let parts = url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?)));
    match parts {
        Some((scheme, (login, rest))) if login.contains(':') => {
            let user = login.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:{HIDDEN}@{rest}")
        }
        _ => url.to_owned(),
    }
}

/// Leaves scheme and host: many receivers have a secret in the path of their address.
fn without_path(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    match rest.split_once(['/', '?']) {
        Some((host, path)) if !path.is_empty() => format!("{scheme}://{host}/{HIDDEN}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::time::Span;

    #[test]
    fn the_defaults_print_and_read_back() {
        let defaults = Config::defaults();
        assert_eq!(toml::from_str::<Config>(&render(&defaults)), Ok(defaults));
    }

    #[test]
    fn what_may_be_a_secret_is_hidden() {
        let mut config = Config::defaults();
        let env = BTreeMap::from([("API_KEY".to_owned(), "hunter2".to_owned())]);
        config.engines.entry("claude".to_owned()).and_modify(|engine| engine.env = env);
        config.engines.entry("codex".to_owned()).and_modify(|engine| engine.stop.kill_limit = Some(Span(1)));
        config.store.url = "postgres://ada:hunter2@db/sexton".to_owned();
        let text = render(&config);
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("[engines.codex.stop]\nkill_limit = \"1ms\""), "{text}");
        assert!(text.contains("API_KEY") && text.contains("postgres://ada:(hidden)@db/sexton"), "{text}");
    }

    #[test]
    fn the_path_of_a_webhook_is_hidden() {
        let text = "name = \"boss\"\nurl = \"https://boss.example/hunter2\"\nsecret_file = \"/s\"";
        let config = Config { webhooks: vec![toml::from_str(text).unwrap()], ..Config::defaults() };
        let text = render(&config);
        assert!(!text.contains("hunter2") && text.contains("https://boss.example/(hidden)"), "{text}");
        let read: Config = toml::from_str(&text).unwrap();
        assert_eq!(read.webhooks[0].events.len(), 5);
    }

    #[test]
    fn a_path_with_an_at_sign_is_no_password() {
        assert_eq!(without_password("sqlite:///home/a@b/c.db"), "sqlite:///home/a@b/c.db");
    }
}
