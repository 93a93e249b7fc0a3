//! The files of systemd: sections, `key=value`, and which of several files wins.

/// Returns what `key` of `section` is set to after all `texts`, the later ones winning; an empty value takes back what
/// was said before.
pub(super) fn value<'a>(texts: &'a [String], section: &str, key: &str) -> Option<&'a str> {
    let said = texts.iter().flat_map(|text| lines(text, section)).filter_map(|line| line.split_once('='));
    said.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).last().filter(|value| !value.is_empty())
}

/// Returns the default that a shipped file shows as a comment, such as `#KillUserProcesses=no`.
pub(super) fn default<'a>(texts: &'a [String], key: &str) -> Option<&'a str> {
    let comments = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix('#'));
    comments.filter_map(|line| line.split_once('=')).find(|(name, _)| *name == key).map(|(_, value)| value.trim())
}

/// Reads a truth value as systemd does.
pub(super) fn truth(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}

fn lines<'a>(text: &'a str, section: &str) -> impl Iterator<Item = &'a str> {
    let header = format!("[{section}]");
    let mut inside = false;
    text.lines().map(str::trim).filter(move |line| {
        if line.starts_with('[') {
            inside = *line == header;
        }
        inside && !line.starts_with(['#', ';', '['])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn the_last_word_in_the_right_section_holds() {
        let files = texts(&[
            "[Unit]\nKillMode=none\n[Service]\n# KillMode=mixed\nKillMode = process\n",
            "[Service]\nDelegate=yes",
        ]);
        assert_eq!(
            (value(&files, "Service", "KillMode"), value(&files, "Service", "Delegate")),
            (Some("process"), Some("yes"))
        );
        let later = texts(&["[Service]\nKillMode=process", "[Service]\nKillMode=mixed\n"]);
        assert_eq!(value(&later, "Service", "KillMode"), Some("mixed"));
        let back = texts(&["[Service]\nKillMode=process\nKillMode=\n"]);
        assert_eq!(value(&back, "Service", "KillMode"), None);
        assert_eq!(value(&texts(&["KillMode=process"]), "Service", "KillMode"), None);
    }

    #[test]
    fn a_comment_shows_the_default() {
        let files = texts(&["[Login]\n#NAutoVTs=6\n#KillUserProcesses=no\n"]);
        assert_eq!(default(&files, "KillUserProcesses"), Some("no"));
        assert_eq!(value(&files, "Login", "KillUserProcesses"), None);
        assert_eq!((truth("Yes"), truth("off"), truth("perhaps")), (Some(true), Some(false), None));
    }
}
