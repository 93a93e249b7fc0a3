//! Control groups for tests, where this machine lets them make some.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use crate::support::processes::unique;

/// A control group that is removed again.
pub(crate) struct Group(pub(crate) PathBuf);

impl Group {
    pub(crate) fn make() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let two = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
        let folder = PathBuf::from(two.split(' ').nth(1)?).join(format!("sexton-test-{}", unique()));
        fs::create_dir(&folder).ok().map(|()| Self(folder))
    }

    pub(crate) fn leaves(&self) -> usize {
        fs::read_dir(&self.0).unwrap().filter(|it| it.as_ref().unwrap().path().is_dir()).count()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = fs::write(entry.path().join("cgroup.kill"), "1");
            let _ = fs::remove_dir(entry.path());
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// Makes one; where that does not work, says so or fails as `SEXTON_REQUIRE` wants.
pub(crate) fn group() -> Option<Group> {
    let group = Group::make();
    if group.is_none() {
        let required = std::env::var("SEXTON_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|word| word == "cgroup"), "no control group can be made here");
        let _ = writeln!(std::io::stderr(), "skipped: no control group can be made here");
    }
    group
}
