//! Can the engines of the settings be started?

use std::path::PathBuf;

use crate::cli::doctor::finding::{Check, Finding};

const CHECK: Check = Check("engines");

/// One engine of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EngineFacts {
    /// Its name.
    pub(crate) name: String,
    /// The program that its command names.
    pub(crate) program: String,
    /// Where that program is; none when it is nowhere.
    pub(crate) found: Option<PathBuf>,
    /// It stands in the shipped settings like this, so nobody asked for it.
    pub(crate) shipped: bool,
    /// Whether the runner of this machine offers it; none when that runner was not heard.
    pub(crate) offered: Option<bool>,
}

/// Every engine that somebody asked for can be started, and the runner offers what is there.
pub(crate) fn check(engines: &[EngineFacts]) -> Vec<Finding> {
    let mut found: Vec<Finding> = engines.iter().filter_map(engine).collect();
    let there: Vec<&str> = engines.iter().filter(|one| one.found.is_some()).map(|one| one.name.as_str()).collect();
    found.push(match there.is_empty() {
        true => CHECK.warning(
            "No engine can be started here, since no program of theirs was found: install one, or name one in [engines].",
        ),
        false => CHECK.ok(format!("Engines that can be started here: {}.", there.join(", "))),
    });
    found
}

fn engine(engine: &EngineFacts) -> Option<Finding> {
    let (name, program) = (&engine.name, &engine.program);
    match (&engine.found, engine.shipped, engine.offered) {
        (None, true, _) => None,
        (None, false, _) => Some(CHECK.problem(format!(
            "Engine {name} cannot be started: its program {program} was not found; install it, or write its whole path into engines.{name}.command."
        ))),
        (Some(path), _, Some(false)) => Some(CHECK.warning(format!(
            "Engine {name} is not offered by the runner of this machine, though its program is here as {}: restart the runner, and see that its PATH leads there.",
            path.display()
        ))),
        (Some(_), ..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::finding::Level;

    fn facts(found: bool, shipped: bool, offered: Option<bool>) -> EngineFacts {
        let found = found.then(|| PathBuf::from("/bin/x"));
        EngineFacts { name: "x".to_owned(), program: "x".to_owned(), found, shipped, offered }
    }

    fn levels(engines: &[EngineFacts]) -> Vec<Level> {
        check(engines).iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn only_an_engine_that_somebody_asked_for_is_missed() {
        assert_eq!(levels(&[facts(true, true, Some(true))]), [Level::Ok]);
        assert_eq!(levels(&[facts(true, false, None), facts(false, true, None)]), [Level::Ok]);
        assert_eq!(levels(&[facts(true, false, None), facts(false, false, None)]), [Level::Problem, Level::Ok]);
        assert_eq!(levels(&[facts(false, true, None)]), [Level::Warning]);
    }

    #[test]
    fn a_runner_that_does_not_find_what_is_here_is_told() {
        let found = check(&[facts(true, true, Some(false))]);
        assert_eq!(found[0].level, Level::Warning);
        assert!(found[0].message.contains("here as /bin/x") && found[0].message.contains("its PATH"), "{found:?}");
    }
}
