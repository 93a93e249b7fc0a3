//! Can the settings be read?

use std::path::Path;

use crate::cli::doctor::finding::{Check, Finding};

const CHECK: Check = Check("settings");

/// Tells which settings hold.
pub(crate) fn readable(file: Option<&Path>, log_fault: Option<&str>) -> Finding {
    if let Some(fault) = log_fault {
        return CHECK.problem(format!("No other command runs: {fault}."));
    }
    match file {
        Some(file) => CHECK.ok(format!("The settings in {} can be used.", file.display())),
        None => CHECK.ok("There is no settings file, so the defaults hold."),
    }
}

/// Tells why no command can run.
pub(crate) fn unusable(why: &str) -> Finding {
    CHECK.problem(format!(
        "The settings cannot be used, so no other command runs and nothing else was looked at; correct this:\n{why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::Level;

    #[test]
    fn settings_that_hold_are_named_and_those_that_do_not_say_why() {
        assert_eq!(readable(Some(Path::new("/c.toml")), None).message, "The settings in /c.toml can be used.");
        assert_eq!(readable(None, None).level, Level::Ok);
        assert_eq!(readable(None, Some("log.filter: \"x\" is no level")).level, Level::Problem);
        let finding = unusable("/c.toml: line 1, column 2");
        assert_eq!(finding.level, Level::Problem);
        assert!(finding.message.ends_with("correct this:\n/c.toml: line 1, column 2"));
    }
}
