//! The shipped `config.toml` as a list of keys, each with its default and its comment: for the table in the README, and
//! for the names of the variables.

use crate::config::DEFAULTS;

/// A setting as it stands in the shipped `config.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its full name, such as `policy.idle_after`.
    pub name: String,
    /// Its default as TOML, quotes included.
    pub default: String,
    /// What it means.
    pub comment: String,
}

impl Key {
    /// Returns the environment variable that sets it, such as `SEXTON_POLICY__IDLE_AFTER`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("SEXTON_{}", self.name.to_uppercase().replace('.', "__"))
    }
}

/// Lists every setting, in the order of the file.
#[must_use]
pub fn keys() -> Vec<Key> {
    let (mut table, mut comment, mut keys) = (String::new(), Vec::new(), Vec::new());
    for line in DEFAULTS.lines() {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.trim());
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = format!("{name}.");
        } else if let Some((key, default)) = line.split_once(" = ") {
            let (name, default) = (format!("{table}{key}"), default.to_owned());
            keys.push(Key { name, default, comment: comment.join(" ") });
        }
        comment.clear();
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_comment_of_its_own() {
        for key in keys() {
            assert!(!key.comment.is_empty(), "{} has no comment above it", key.name);
        }
    }

    #[test]
    fn every_setting_is_a_key_and_every_key_a_setting() {
        let mut listed: Vec<String> = keys().into_iter().map(|key| key.name).collect();
        let mut parsed = Vec::new();
        flatten("", &toml::from_str(DEFAULTS).unwrap(), &mut parsed);
        listed.sort();
        parsed.sort();
        assert_eq!(listed, parsed);
    }

    fn flatten(prefix: &str, table: &toml::Table, names: &mut Vec<String>) {
        for (key, value) in table {
            match value.as_table() {
                Some(inner) => flatten(&format!("{prefix}{key}."), inner, names),
                None => names.push(format!("{prefix}{key}")),
            }
        }
    }

    #[test]
    fn keys_tell_default_comment_and_variable() {
        let key = keys().into_iter().find(|key| key.name == "policy.advanced.stall_after").unwrap();
        assert_eq!(key.default, "\"30m\"");
        assert!(key.comment.starts_with("A turn that says generating"), "{}", key.comment);
        assert_eq!(key.variable(), "SEXTON_POLICY__ADVANCED__STALL_AFTER");
    }
}
