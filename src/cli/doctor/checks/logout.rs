//! Would a logout kill the engines?

use crate::cli::doctor::finding::{Check, Finding};
use crate::session::Id;

const CHECK: Check = Check("logout");

/// What this machine does at a logout.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MachineFacts {
    /// Whether systemd runs it.
    pub(crate) systemd: bool,
    /// Whose engines these are, as the machine knows them.
    pub(crate) user: String,
    /// Whether that user's manager outlives the last logout.
    pub(crate) lingers: bool,
    /// Whether what a login session leaves behind is killed; none when that cannot be told.
    pub(crate) kills: Option<bool>,
}

/// Where processes of a runner of this machine are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The runner.
    pub(crate) runner: Id,
    /// Their cgroup, as `/proc/PID/cgroup` has it.
    pub(crate) cgroup: String,
}

/// What a cgroup ends with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Home {
    /// A login session, by its scope.
    Session(String),
    /// The manager of a user's own units.
    Manager,
    /// Neither.
    Lasting,
}

impl Home {
    fn of(cgroup: &str) -> Self {
        let parts: Vec<&str> = cgroup.split('/').collect();
        if parts.iter().any(|part| part.starts_with("user@") && part.ends_with(".service")) {
            return Self::Manager;
        }
        match parts.iter().find(|part| part.starts_with("session-") && part.ends_with(".scope")) {
            Some(scope) => Self::Session((*scope).to_owned()),
            None => Self::Lasting,
        }
    }
}

/// No runner and no engine is where a logout would take it along.
pub(crate) fn check(machine: &MachineFacts, places: &[Place]) -> Vec<Finding> {
    if !machine.systemd {
        return vec![CHECK.ok("There is no systemd here that could kill engines at a logout.")];
    }
    let mut homes: Vec<(Home, &Id)> = places.iter().map(|place| (Home::of(&place.cgroup), &place.runner)).collect();
    homes.sort();
    homes.dedup();
    if homes.is_empty() {
        return vec![CHECK.ok("No runner of this machine answers, so there is nothing that a logout could kill.")];
    }
    homes.into_iter().map(|(home, runner)| judge(machine, &home, runner)).collect()
}

fn judge(machine: &MachineFacts, home: &Home, runner: &Id) -> Finding {
    let user = &machine.user;
    match (home, machine.kills, machine.lingers) {
        (Home::Lasting, ..) => CHECK.ok(format!("What runner {runner} holds does not depend on anybody being logged in.")),
        (Home::Manager, _, true) => CHECK.ok(format!("User {user} lingers, so what runner {runner} holds outlives a logout.")),
        (Home::Manager, _, false) => CHECK.problem(format!(
            "What runner {runner} holds runs under the user manager of {user}, which ends with the last logout and kills it: `loginctl enable-linger {user}` lets it stay."
        )),
        (Home::Session(_), Some(false), _) => {
            CHECK.ok(format!("What runner {runner} holds runs in a login session, and this machine lets that be at a logout."))
        }
        (Home::Session(scope), Some(true), _) => CHECK.problem(format!(
            "What runner {runner} holds runs in the login session {scope}, and a logout kills it (KillUserProcesses of logind.conf): start the runner as a unit, as packaging/systemd shows, with `loginctl enable-linger {user}`."
        )),
        (Home::Session(scope), None, _) => CHECK.warning(format!(
            "What runner {runner} holds runs in the login session {scope}, and whether a logout kills that cannot be told from logind.conf: start the runner as a unit, as packaging/systemd shows, with `loginctl enable-linger {user}`."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::testing::one;
    use crate::cli::doctor::finding::Level;

    const SESSION: &str = "/user.slice/user-1000.slice/session-3.scope";
    const MANAGER: &str = "/user.slice/user-1000.slice/user@1000.service/app.slice/sexton-runner.service";
    const SYSTEM: &str = "/system.slice/sexton-runner.service";

    fn said(cgroup: &str, kills: Option<bool>, lingers: bool) -> (Level, String) {
        let machine = MachineFacts { systemd: true, user: "ann".to_owned(), lingers, kills };
        let place = Place { runner: "mac".parse().unwrap(), cgroup: cgroup.to_owned() };
        one(check(&machine, &[place.clone(), place]))
    }

    #[test]
    fn a_login_session_takes_engines_along_where_the_machine_says_so() {
        let (level, sentence) = said(SESSION, Some(true), true);
        assert!(level == Level::Problem && sentence.contains("session-3.scope"), "{sentence}");
        assert_eq!(said(SESSION, Some(false), false).0, Level::Ok);
        assert_eq!(said(SESSION, None, false).0, Level::Warning);
    }

    #[test]
    fn a_user_manager_takes_engines_along_unless_the_user_lingers() {
        let (level, sentence) = said(MANAGER, Some(false), false);
        assert!(level == Level::Problem && sentence.contains("`loginctl enable-linger ann`"), "{sentence}");
        assert_eq!(said(MANAGER, Some(true), true).0, Level::Ok);
    }

    #[test]
    fn a_system_unit_and_a_container_do_not_care_who_is_logged_in() {
        assert_eq!(said(SYSTEM, Some(true), false).0, Level::Ok);
        assert_eq!(said("/", None, false).0, Level::Ok);
    }

    #[test]
    fn engines_that_stayed_elsewhere_are_told_apart_from_their_runner() {
        let machine = MachineFacts { systemd: true, kills: Some(true), ..MachineFacts::default() };
        let place = |cgroup: &str| Place { runner: "mac".parse().unwrap(), cgroup: cgroup.to_owned() };
        let found = check(&machine, &[place(SYSTEM), place(SESSION), place(SESSION)]);
        let levels: Vec<Level> = found.iter().map(|finding| finding.level).collect();
        assert_eq!(levels, [Level::Problem, Level::Ok]);
    }

    #[test]
    fn without_systemd_or_runner_there_is_nothing_to_fear() {
        let machine = MachineFacts { systemd: true, ..MachineFacts::default() };
        assert_eq!(one(check(&machine, &[])).0, Level::Ok);
        assert_eq!(
            one(check(&MachineFacts::default(), &[])).1,
            "There is no systemd here that could kill engines at a logout."
        );
    }
}
