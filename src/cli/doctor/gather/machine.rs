//! What this machine does at a logout.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::doctor::checks::logout::MachineFacts;
use crate::cli::doctor::gather::ini;

/// Where logind's settings lie, those that win last.
const LOGIND: [&str; 3] = ["usr/lib/systemd", "run/systemd", "etc/systemd"];

/// Looks below `root`; `name` is the user's name by the environment.
pub(super) fn look(root: &Path, name: &str) -> MachineFacts {
    let user = name_of(root, rustix::process::getuid().as_raw()).unwrap_or_else(|| name.to_owned());
    MachineFacts {
        systemd: root.join("run/systemd/system").is_dir(),
        lingers: root.join("var/lib/systemd/linger").join(&user).exists(),
        kills: kills(&logind(root), &user),
        user,
    }
}

/// Finds the name of a user where all of them stand; those of a directory service do not.
fn name_of(root: &Path, uid: u32) -> Option<String> {
    let users = fs::read_to_string(root.join("etc/passwd")).ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// Reads the texts of logind's settings, in the order in which they win: the file of the strongest folder, then all
/// drop-ins by name.
fn logind(root: &Path) -> Vec<String> {
    let files = LOGIND.iter().rev().map(|folder| root.join(folder).join("logind.conf"));
    let main = files.filter_map(|file| fs::read_to_string(file).ok()).next();
    let mut extra: Vec<PathBuf> =
        LOGIND.iter().flat_map(|folder| drop_ins(&root.join(folder).join("logind.conf.d"))).collect();
    extra.sort_by_key(|file| file.file_name().map(ToOwned::to_owned));
    main.into_iter().chain(extra.iter().filter_map(|file| fs::read_to_string(file).ok())).collect()
}

/// Lists the `.conf` files of a folder, which need not be there.
pub(super) fn drop_ins(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "conf")).collect();
    files.sort();
    files
}

/// Returns whether logind kills what a session of `user` leaves behind; none when its settings do not say.
fn kills(texts: &[String], user: &str) -> Option<bool> {
    let names =
        |key: &str| ini::value(texts, "Login", key).map(|users| users.split_whitespace().any(|name| name == user));
    if names("KillExcludeUsers").unwrap_or(user == "root") || names("KillOnlyUsers") == Some(false) {
        return Some(false);
    }
    let said = ini::value(texts, "Login", "KillUserProcesses").or_else(|| ini::default(texts, "KillUserProcesses"));
    said.and_then(ini::truth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kills_of(texts: &[&str], user: &str) -> Option<bool> {
        kills(&texts.iter().map(|text| format!("[Login]\n{text}\n")).collect::<Vec<_>>(), user)
    }

    #[test]
    fn logind_kills_whom_its_settings_name() {
        assert_eq!(kills_of(&["KillUserProcesses=yes"], "ann"), Some(true));
        assert_eq!(kills_of(&["#KillUserProcesses=no"], "ann"), Some(false));
        assert_eq!(kills_of(&["#KillUserProcesses=no", "KillUserProcesses=yes"], "ann"), Some(true));
        assert_eq!(kills_of(&["KillUserProcesses=yes"], "root"), Some(false));
        assert_eq!(kills_of(&["KillUserProcesses=yes\nKillExcludeUsers=bob ann"], "ann"), Some(false));
        assert_eq!(kills_of(&["KillUserProcesses=yes\nKillOnlyUsers=bob"], "ann"), Some(false));
        assert_eq!(kills_of(&["KillUserProcesses=yes\nKillOnlyUsers=ann"], "ann"), Some(true));
        assert_eq!(kills_of(&[], "ann"), None);
    }

    #[test]
    fn a_machine_is_looked_at_by_its_files() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let bare = look(root.path(), "ann");
        assert_eq!(bare, MachineFacts { user: "ann".to_owned(), kills: bare.kills, ..MachineFacts::default() });
        write("run/systemd/system/x", "");
        write("var/lib/systemd/linger/ann", "");
        write("etc/systemd/logind.conf", "[Login]\n#KillUserProcesses=no\nKillExcludeUsers=nobody\n");
        write("usr/lib/systemd/logind.conf.d/50-kill.conf", "[Login]\nKillUserProcesses=yes\n");
        let uid = rustix::process::getuid().as_raw();
        write("etc/passwd", &format!("nobody:x:65533:1::/:/bin/sh\nann:x:{uid}:1:Ann:/home/ann:/bin/sh\n"));
        let facts = look(root.path(), "someone");
        assert_eq!(facts, MachineFacts { systemd: true, user: "ann".to_owned(), lingers: true, kills: Some(true) });
    }
}
