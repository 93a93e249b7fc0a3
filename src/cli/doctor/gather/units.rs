//! The units that run a runner, by what systemd says of them, or by their files.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::cli::Context;
use crate::cli::doctor::checks::logout::Place;
use crate::cli::doctor::checks::units::{Manager, UnitFacts};
use crate::cli::doctor::gather::{ini, machine};

/// The unit that comes with Sexton, which is looked at also while no runner runs.
const SHIPPED: &str = "sexton-runner.service";
/// How long `systemctl` may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where units of the machine lie, those that win first.
const SYSTEM: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];
/// Where units of all users lie, those that win first.
const USER: [&str; 4] = ["etc/systemd/user", "run/systemd/user", "usr/local/lib/systemd/user", "usr/lib/systemd/user"];

/// Looks at the units that hold runners now, and at the shipped one where it is installed.
pub(super) async fn look(context: &Context, systemd: bool, places: &[Place]) -> Vec<UnitFacts> {
    let mut names: Vec<(Manager, String)> = places.iter().filter_map(|place| unit_of(&place.cgroup)).collect();
    names.extend([(Manager::System, SHIPPED.to_owned()), (Manager::User, SHIPPED.to_owned())]);
    names.sort();
    names.dedup();
    let homes = context.paths.user_unit_folders();
    let mut units = Vec::new();
    for (manager, name) in names {
        let asked = if systemd { ask(manager, &name).await } else { None };
        let said = asked.or_else(|| read(&folders(Path::new("/"), manager, &homes), &name));
        units.extend(said.map(|(kill_mode, delegate)| UnitFacts { name, manager, kill_mode, delegate }));
    }
    units
}

/// Returns the service that a cgroup belongs to, unless that is a user's manager as a whole.
fn unit_of(cgroup: &str) -> Option<(Manager, String)> {
    let is_manager = |part: &&str| part.starts_with("user@");
    let manager = if cgroup.split('/').any(|part| is_manager(&part)) { Manager::User } else { Manager::System };
    let mut units = cgroup.split('/').filter(|part| part.ends_with(".service") || part.ends_with(".scope"));
    let unit = units.rfind(|part| !is_manager(part))?;
    unit.ends_with(".service").then(|| (manager, unit.to_owned()))
}

/// What matters of a unit: what its stop kills, and whether its cgroup is handed over.
type Said = (Option<String>, bool);

/// Asks systemd, which knows every drop-in.
async fn ask(manager: Manager, unit: &str) -> Option<Said> {
    let mut command = Command::new("systemctl");
    if manager == Manager::User {
        command.arg("--user");
    }
    command.args(["show", "-p", "LoadState,KillMode,Delegate", "--", unit]);
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.ok()?.ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    shown(&text)
}

fn shown(text: &str) -> Option<Said> {
    let texts = [format!("[Unit]\n{text}")];
    let value = |key| ini::value(&texts, "Unit", key);
    (value("LoadState") == Some("loaded"))
        .then(|| (value("KillMode").map(str::to_owned), value("Delegate").and_then(ini::truth).unwrap_or(false)))
}

fn folders(root: &Path, manager: Manager, homes: &[PathBuf]) -> Vec<PathBuf> {
    let below = |names: &[&str]| names.iter().map(|name| root.join(name)).collect::<Vec<_>>();
    match manager {
        Manager::System => below(&SYSTEM),
        Manager::User => homes.iter().cloned().chain(below(&USER)).collect(),
    }
}

/// Reads the unit's file and its drop-ins; none when it is not installed.
fn read(folders: &[PathBuf], unit: &str) -> Option<Said> {
    let main = folders.iter().find_map(|folder| std::fs::read_to_string(folder.join(unit)).ok())?;
    // The strongest folder comes last, so that its word is the last one.
    let extra = folders.iter().rev().flat_map(|folder| machine::drop_ins(&folder.join(format!("{unit}.d"))));
    let texts: Vec<String> =
        std::iter::once(main).chain(extra.filter_map(|file| std::fs::read_to_string(file).ok())).collect();
    let value = |key| ini::value(&texts, "Service", key);
    // Delegate also takes a list of controllers.
    let delegate = value("Delegate").is_some_and(|text| ini::truth(text).unwrap_or(true));
    Some((value("KillMode").map(str::to_owned), delegate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_of_a_cgroup_is_its_innermost_one() {
        let named = |cgroup: &str| unit_of(cgroup);
        let runner = || SHIPPED.to_owned();
        assert_eq!(named("/system.slice/sexton-runner.service"), Some((Manager::System, runner())));
        assert_eq!(named("/system.slice/sexton-runner.service/engines/s1"), Some((Manager::System, runner())));
        let user = "/user.slice/user-1000.slice/user@1000.service/app.slice";
        assert_eq!(named(&format!("{user}/sexton-runner.service")), Some((Manager::User, runner())));
        assert_eq!(named(&format!("{user}/vte-spawn-1.scope")), None);
        assert_eq!(named("/user.slice/user-1000.slice/session-3.scope"), None);
        assert_eq!(named("/"), None);
    }

    #[test]
    fn what_systemd_shows_is_read() {
        let text = |load: &str| format!("KillMode=process\nDelegate=yes\nLoadState={load}\n");
        assert_eq!(shown(&text("loaded")), Some((Some("process".to_owned()), true)));
        assert_eq!(shown(&text("not-found")), None);
    }

    #[test]
    fn without_systemd_the_files_are_read_with_their_drop_ins() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let found = || read(&folders(root.path(), Manager::User, &[root.path().join("home")]), SHIPPED);
        assert_eq!(found(), None);
        write("usr/lib/systemd/user/sexton-runner.service", "[Service]\nKillMode=process\nDelegate=yes\n");
        assert_eq!(found(), Some((Some("process".to_owned()), true)));
        write("home/sexton-runner.service.d/override.conf", "[Service]\nKillMode=mixed\nDelegate=memory pids\n");
        assert_eq!(found(), Some((Some("mixed".to_owned()), true)));
        write("home/sexton-runner.service", "[Service]\n");
        write("home/sexton-runner.service.d/override.conf", "");
        assert_eq!(found(), Some((None, false)));
    }
}
