//! A control group of the engine's own, where one was delegated: the one containment that outlives the shim.
//!
//! Version 2 only. Nothing here is needed: whatever fails, the subreaper does without.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The variable that names a delegated control group where it cannot be told otherwise, as for root.
pub(crate) const VARIABLE: &str = "SEXTON_CGROUP";
/// Where Linux shows the mounts of this process.
const MOUNTS: &str = "/proc/self/mountinfo";

/// The control group of one engine; the shim stays outside.
#[derive(Debug)]
pub(crate) struct Leaf {
    folder: PathBuf,
}

impl Leaf {
    /// Makes one below `under`; none when that does not work.
    #[must_use]
    pub(crate) fn make(under: &Path, session: &str) -> Option<Self> {
        let folder = under.join(name_of(session));
        // One of the same name is empty, or it cannot be removed: then its processes are not mixed with others.
        let _ = fs::remove_dir(&folder);
        fs::create_dir(&folder).ok().map(|()| Self { folder })
    }

    /// Returns the one that was made for a session, if that is what lies there.
    #[must_use]
    pub(crate) fn known(folder: PathBuf, session: &str) -> Option<Self> {
        let named = folder.file_name().is_some_and(|name| name.to_str() == Some(&name_of(session)));
        (named && folder.join("cgroup.kill").exists()).then_some(Self { folder })
    }

    /// Returns its folder.
    #[must_use]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills everything in it.
    ///
    /// What must be true: a stop has come to its last step. It holds nothing but what the engine started.
    pub(crate) fn kill(&self) {
        // What it did not reach is killed one by one anyway.
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
    }

    /// Returns whether the kernel says that no process is in it or below it.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        match fs::read_to_string(self.folder.join("cgroup.events")) {
            Ok(events) => events.lines().any(|line| line == "populated 0"),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Removes it, and what an engine made below it, once it is empty.
    pub(crate) fn remove(&self) {
        remove(&self.folder);
    }
}

fn name_of(session: &str) -> String {
    format!("sexton-{session}")
}

fn remove(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    // The kernel refuses to remove one that is not empty.
    let _ = fs::remove_dir(folder);
}

/// Returns the control group in which this process may make others.
///
/// Named by [`VARIABLE`], or this process's own if it belongs to its user. Root may write everywhere, which says nothing
/// about who else manages a group, so for root it must be named.
#[must_use]
pub(crate) fn delegated() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let folder = named.or_else(own)?;
    let probe = folder.join(format!("sexton-probe-{}", std::process::id()));
    fs::create_dir(&probe).ok()?;
    fs::remove_dir(&probe).ok().map(|()| folder)
}

fn own() -> Option<PathBuf> {
    let user = rustix::process::geteuid();
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own_path(&groups)?;
    let folder = mounted(&fs::read_to_string(MOUNTS).ok()?)?.join(path);
    let owner = fs::metadata(&folder).ok()?.uid();
    (!user.is_root() && owner == user.as_raw()).then_some(folder)
}

/// Finds the path below the mount in the text of `/proc/self/cgroup`.
fn own_path(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::/"))
}

/// Finds where version 2 is mounted, in the text of `/proc/self/mountinfo`.
fn mounted(mounts: &str) -> Option<PathBuf> {
    let is_two = |rest: &str| rest.split(' ').next() == Some("cgroup2");
    let line = mounts.lines().filter_map(|line| line.split_once(" - ")).find(|(_, rest)| is_two(rest));
    line.and_then(|(first, _)| first.split(' ').nth(4)).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_among_others() {
        assert_eq!(own_path("4:memory:/a\n0::/user.slice/me\n"), Some("user.slice/me"));
        assert_eq!(own_path("4:memory:/a\n"), None);
    }

    #[test]
    fn only_the_group_that_was_made_for_the_session_is_known_again() {
        let under = tempfile::tempdir().unwrap();
        let folder = under.path().join("sexton-s1");
        fs::create_dir(&folder).unwrap();
        assert!(Leaf::known(folder.clone(), "s1").is_none(), "it is no control group");
        fs::write(folder.join("cgroup.kill"), "").unwrap();
        assert!(Leaf::known(folder.clone(), "s1").is_some());
        assert!(Leaf::known(folder, "s10").is_none(), "it is another session's");
        assert!(Leaf::known(under.path().to_owned(), "s1").is_none(), "it is everybody's");
    }

    #[test]
    fn only_version_2_counts() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      41 30 0:37 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      44 30 0:40 / /sys/fs/cgroup/unified rw,relatime shared:5 - cgroup2 cgroup2 rw\n";
        assert_eq!(mounted(mounts), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mounted("30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"), None);
    }
}
