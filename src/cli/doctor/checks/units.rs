//! Would a unit's own settings kill the engines at a restart of the runner?

use crate::cli::doctor::finding::{Check, Finding};

const CHECK: Check = Check("units");

/// Whose unit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Manager {
    /// The machine's.
    System,
    /// The user's.
    User,
}

/// A unit that runs, or would run, a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitFacts {
    /// Its name.
    pub(crate) name: String,
    /// Whose it is.
    pub(crate) manager: Manager,
    /// What its stop kills; none says nothing, which means everything.
    pub(crate) kill_mode: Option<String>,
    /// Whether its cgroup is handed over to it.
    pub(crate) delegate: bool,
}

/// Each unit lets the engines be when the runner stops.
pub(crate) fn check(units: &[UnitFacts]) -> Vec<Finding> {
    units.iter().map(unit).collect()
}

fn unit(unit: &UnitFacts) -> Finding {
    let name = &unit.name;
    let user = if unit.manager == Manager::User { " --user" } else { "" };
    let edit = format!("`systemctl{user} edit {name}`");
    match unit.kill_mode.as_deref().unwrap_or("control-group") {
        "process" if unit.delegate => CHECK.ok(format!("Unit {name} lets the engines be when the runner stops.")),
        "process" => CHECK.warning(format!(
            "Unit {name} does not hand its cgroup over, so nothing of an engine can be found there by the kernel's own list: add Delegate=yes below [Service] with {edit}."
        )),
        "none" => CHECK.warning(format!(
            "Unit {name} has KillMode=none, so not even the runner ends with it: write KillMode=process below [Service] with {edit}."
        )),
        mode => CHECK.problem(format!(
            "Unit {name} has KillMode={mode}, so its next stop or restart kills every engine: write KillMode=process below [Service] with {edit}."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::testing::one;
    use crate::cli::doctor::finding::Level;

    fn said(kill_mode: Option<&str>, delegate: bool, manager: Manager) -> (Level, String) {
        let name = "sexton-runner.service".to_owned();
        one(check(&[UnitFacts { name, manager, kill_mode: kill_mode.map(str::to_owned), delegate }]))
    }

    #[test]
    fn only_a_unit_that_kills_its_main_process_alone_is_fine() {
        assert_eq!(said(Some("process"), true, Manager::User).0, Level::Ok);
        assert_eq!(said(Some("process"), false, Manager::User).0, Level::Warning);
        assert_eq!(said(Some("none"), true, Manager::User).0, Level::Warning);
        for mode in [None, Some("control-group"), Some("mixed")] {
            let (level, sentence) = said(mode, true, Manager::User);
            assert!(level == Level::Problem && sentence.contains("kills every engine"), "{sentence}");
            assert!(sentence.contains("`systemctl --user edit sexton-runner.service`"), "{sentence}");
        }
        assert!(said(None, true, Manager::System).1.contains("`systemctl edit "));
    }
}
