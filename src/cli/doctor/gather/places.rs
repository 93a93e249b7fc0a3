//! Where things are: processes in cgroups, state in folders, programs on the search path.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, access, statvfs};
use tokio::sync::oneshot;

use crate::cli::Context;
use crate::cli::doctor::checks::disk::{Folder, FolderState, Unfit};
use crate::cli::doctor::checks::logout::Place;
use crate::cli::doctor::gather::runners::Processes;

/// A folder of a server that is gone would be looked at for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// Folders that are cleaned without asking.
const CLEANED: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev/shm"];

/// Finds where the processes of the runners of this machine are. One that is gone by now, or not seen from here, is nowhere.
pub(super) fn of_processes(processes: &[Processes]) -> Vec<Place> {
    let all = processes.iter().flat_map(|(runner, pids)| pids.iter().map(move |pid| (runner, pid)));
    let places = all.filter_map(|(runner, pid)| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        Some(Place { runner: runner.clone(), cgroup: systemds(&text)?.to_owned() })
    });
    places.collect()
}

/// Returns the cgroup that systemd goes by: the one of version 2, or of its own hierarchy beside version 1.
fn systemds(text: &str) -> Option<&str> {
    let in_hierarchy = |mark: &str| text.lines().find_map(|line| line.split_once(mark).map(|(_, path)| path));
    in_hierarchy(":name=systemd:").or_else(|| text.lines().find_map(|line| line.strip_prefix("0::")))
}

/// Looks at the folders that state lies in; that of the runner only where there is one.
pub(super) async fn folders(context: &Context, runner_is_here: bool) -> Vec<Folder> {
    let (paths, config) = (&context.paths, &context.config);
    let mut found = Vec::new();
    if let Ok(url) = paths.store_url(config) {
        let file = Path::new(url.strip_prefix("sqlite://").unwrap_or(&url)).to_owned();
        found.push(("the store", file.parent().map_or_else(|| PathBuf::from("."), Path::to_owned)));
    }
    if let Ok(folder) = paths.runner_state_dir(config)
        && (runner_is_here || folder.exists())
    {
        found.push(("the runner's records", folder));
    }
    let mut folders = Vec::new();
    for (what, path) in found {
        let path = std::path::absolute(&path).unwrap_or(path);
        let state = patiently(path.clone()).await;
        folders.push(Folder { what, path, state });
    }
    folders
}

/// Looks at a folder in a thread of its own, which is left behind when it does not come back.
async fn patiently(path: PathBuf) -> Result<FolderState, String> {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || tell.send(folder_state(&path)));
    match tokio::time::timeout(PATIENCE, told).await {
        Ok(Ok(state)) => state,
        Ok(Err(_)) | Err(_) => Err("it does not answer".to_owned()),
    }
}

fn folder_state(path: &Path) -> Result<FolderState, String> {
    // Until it is made, what holds for the folder above holds for it.
    let there = path.ancestors().find(|above| above.exists()).ok_or("it is nowhere")?;
    let there = there.canonicalize().map_err(|why| why.to_string())?;
    let room = statvfs(&there).map_err(|why| why.to_string())?;
    Ok(FolderState {
        free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
        // Some file systems make their inodes as they need them, and say 0 of 0.
        free_files: (room.f_files > 0).then_some(room.f_favail),
        writable: access(&there, Access::WRITE_OK | Access::EXEC_OK).is_ok(),
        unfit: unfit(&there),
        cleaned: CLEANED.iter().map(PathBuf::from).find(|above| there.starts_with(above)),
    })
}

#[cfg(target_os = "linux")]
fn unfit(path: &Path) -> Option<Unfit> {
    const MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];
    // NFS, CIFS, SMB2, 9p, AFS.
    const NETWORK: [u32; 5] = [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x5346_414f];
    let kind = rustix::fs::statfs(path).ok()?.f_type;
    // The number has 32 bits, whatever the type that it is told in.
    let kind = u32::try_from(kind & 0xffff_ffff).ok()?;
    let network = NETWORK.contains(&kind).then_some(Unfit::Network);
    network.or_else(|| MEMORY.contains(&kind).then_some(Unfit::Memory))
}

#[cfg(not(target_os = "linux"))]
fn unfit(_path: &Path) -> Option<Unfit> {
    None
}

/// Finds a program as the runner would: a path as it stands, a name on the search path.
pub(super) fn program(name: &str, search: Option<&OsStr>) -> Option<PathBuf> {
    let runs = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(runs);
    }
    std::env::split_paths(search?).map(|folder| folder.join(name)).find(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_either_version_is_found() {
        let hybrid = "12:pids:/x\n1:name=systemd:/user.slice/session-1.scope\n0::/user.slice\n";
        assert_eq!(systemds(hybrid), Some("/user.slice/session-1.scope"));
        assert_eq!(systemds("0::/system.slice/a.service\n"), Some("/system.slice/a.service"));
        assert_eq!(systemds("12:pids:/x\n"), None);
    }

    #[test]
    fn programs_are_found_by_path_or_name_and_must_run() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        let search = std::env::join_paths([Path::new("/no/such"), folder.path()]).unwrap();
        let found = || (program("tool", Some(&search)), program(file.to_str().unwrap(), None));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(found(), (None, None));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found(), (Some(file.clone()), Some(file.clone())));
        assert_eq!((program("tool", None), program("other", Some(&search))), (None, None));
    }

    #[tokio::test]
    async fn a_folder_that_is_not_there_yet_is_as_the_one_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let deep = patiently(folder.path().join("a/b")).await.unwrap();
        assert!(deep.writable && deep.free_bytes > 0, "{deep:?}");
        let cleaned = folder.path().canonicalize().unwrap().starts_with("/tmp");
        assert_eq!(deep.cleaned.is_some(), cleaned);
    }
}
