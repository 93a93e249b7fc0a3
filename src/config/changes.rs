//! What differs between two sets of settings, by key; never by value, which may be a secret.

use crate::config::{Config, LimitsConfig};

/// Tables and keys whose change a process that runs does not follow: what it listens on, what it opened, what it was
/// started with, and what only the runner obeys.
const AT_START: [&str; 11] = [
    "owner",
    "store",
    "server",
    "runner",
    "engines",
    "schedule",
    "log",
    "limits.connect_timeout",
    "limits.request_timeout",
    "limits.end_timeout",
    "limits.response_bytes",
];

/// The keys that differ between two sets of settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Those that take effect at once: in a worker, with its next pass.
    pub at_once: Vec<String>,
    /// Those that take effect when the process is started again.
    pub at_restart: Vec<String>,
}

impl Changes {
    /// Compares two sets of settings.
    #[must_use]
    pub fn between(before: &Config, after: &Config) -> Self {
        let mut keys = Vec::new();
        if let (Ok(before), Ok(after)) = (toml::Table::try_from(before), toml::Table::try_from(after)) {
            compare("", &before, &after, &mut keys);
        }
        let (at_restart, at_once) = keys.into_iter().partition(|key| is_read_at_start(key));
        Self { at_once, at_restart }
    }

    /// Returns whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at_once.is_empty() && self.at_restart.is_empty()
    }
}

impl Config {
    /// Returns the settings that hold in a process that began with these and has now read `fresh`: all of `fresh` but what
    /// is read at the start alone.
    #[must_use]
    pub fn followed_by(&self, fresh: Self) -> Self {
        let began = self.clone();
        let limits = LimitsConfig {
            connect_timeout: began.limits.connect_timeout,
            request_timeout: began.limits.request_timeout,
            end_timeout: began.limits.end_timeout,
            response_bytes: began.limits.response_bytes,
            ..fresh.limits
        };
        Self {
            owner: began.owner,
            store: began.store,
            server: began.server,
            runner: began.runner,
            engines: began.engines,
            schedule: began.schedule,
            log: began.log,
            limits,
            ..fresh
        }
    }
}

fn is_read_at_start(key: &str) -> bool {
    AT_START.iter().any(|one| key.strip_prefix(one).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

fn compare(prefix: &str, before: &toml::Table, after: &toml::Table, keys: &mut Vec<String>) {
    let added = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(added) {
        let name = format!("{prefix}{key}");
        match (before.get(key), after.get(key)) {
            (Some(toml::Value::Table(before)), Some(toml::Value::Table(after))) => {
                compare(&format!("{name}."), before, after, keys);
            }
            (before, after) if before == after => {}
            _ => keys.push(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Rule;
    use crate::time::{HOUR, Span};

    #[test]
    fn keys_that_differ_are_named_by_when_they_take_effect() {
        let before = Config::defaults();
        assert!(Changes::between(&before, &before.clone()).is_empty());
        let mut after = before.clone();
        after.policy.idle_after = Span(HOUR);
        after.policy.rule = vec![Rule::default()].into();
        after.limits.connect_timeout = Span(1);
        after.limits.ready_wait = Span(1);
        after.server.listen = "127.0.0.1:1".parse().unwrap();
        after.engines.remove("codex");
        let changes = Changes::between(&before, &after);
        assert_eq!(changes.at_once, ["limits.ready_wait", "policy.idle_after", "policy.rule"]);
        assert_eq!(changes.at_restart, ["engines.codex", "limits.connect_timeout", "server.listen"]);
        let holds = before.followed_by(after.clone());
        assert_eq!(Changes::between(&before, &holds), Changes { at_once: changes.at_once, at_restart: Vec::new() });
        assert_eq!(Changes::between(&holds, &after).at_restart, changes.at_restart, "told again at each reading");
    }

    #[test]
    fn each_key_holds_when_it_is_said_to() {
        let before = Config::defaults();
        let mut after = before.clone();
        "x".clone_into(&mut after.owner);
        "sqlite://x".clone_into(&mut after.store.url);
        after.runner.interrupt_stalled = true;
        "@daily".clone_into(&mut after.schedule.sweep);
        "debug".clone_into(&mut after.log.filter);
        after.limits.request_timeout = Span(1);
        after.limits.end_timeout = Span(1);
        after.limits.response_bytes.0 = 1;
        assert_eq!(Changes::between(&before, &after).at_restart.len(), 8);
        assert_eq!(before.followed_by(after), before);
    }

    #[test]
    fn what_is_read_at_start_are_keys_and_tables_of_the_settings() {
        let shipped = toml::Table::try_from(Config::defaults()).unwrap();
        for key in AT_START {
            let found =
                key.split('.').try_fold(toml::Value::Table(shipped.clone()), |value, part| value.get(part).cloned());
            assert!(found.is_some(), "{key}");
        }
    }
}
