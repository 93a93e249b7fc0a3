//! Processes as the kernel shows them: identity, descendants, what they cost, and signals that cannot hit a stranger.
//!
//! Decides nothing: who is to be signalled, and when, is the caller's business.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::path::Path;

use procfs::process::Process;
use procfs::{ProcError, ProcResult};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

/// One process, told apart from a later one with the same number by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Its process id.
    pub(crate) pid: i32,
    /// When it started, in clock ticks after the machine booted.
    pub(crate) started: u64,
}

/// What the kernel says about one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Which process it is.
    pub(crate) identity: Identity,
    /// Its parent.
    pub(crate) parent: i32,
    /// Its one-letter state; `Z` and `X` are dead.
    pub(crate) state: char,
    /// Its name, for people.
    pub(crate) name: String,
    /// Its resident memory, in bytes.
    pub(crate) rss_bytes: u64,
    /// Its processor time and that of the children it has waited for, in clock ticks.
    pub(crate) cpu_ticks: u64,
}

impl Facts {
    /// Returns whether it still runs; a zombie does not.
    #[must_use]
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

/// Returns the facts about `pid`, if there is such a process.
#[must_use]
pub(crate) fn facts(pid: i32) -> Option<Facts> {
    facts_of(&Process::new(pid).ok()?).ok()
}

/// Reads through the handle, which never shows a later process with the same number.
fn facts_of(process: &Process) -> ProcResult<Facts> {
    let stat = process.stat()?;
    let waited = u64::try_from(stat.cutime.saturating_add(stat.cstime)).unwrap_or(0);
    Ok(Facts {
        identity: Identity { pid: process.pid, started: stat.starttime },
        parent: stat.ppid,
        state: stat.state,
        name: stat.comm,
        rss_bytes: stat.rss.saturating_mul(procfs::page_size()),
        cpu_ticks: stat.utime.saturating_add(stat.stime).saturating_add(waited),
    })
}

/// Returns everything below `root`, parents before children, zombies left out.
///
/// A process that forks or exits meanwhile may be missed; who needs certainty repeats it until the kernel says that no
/// child is left.
#[must_use]
pub(crate) fn descendants(root: i32) -> Vec<Facts> {
    let mut seen = HashSet::from([root]);
    let mut queue = VecDeque::from(children(root));
    let mut found = Vec::new();
    while let Some(pid) = queue.pop_front() {
        if !seen.insert(pid) {
            continue;
        }
        queue.extend(children(pid));
        found.extend(facts(pid).filter(Facts::is_alive));
    }
    found
}

fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = Process::new(pid).and_then(|process| process.tasks()) else { return Vec::new() };
    let pids = tasks.flatten().filter_map(|task| task.children().ok()).flatten();
    pids.filter_map(|pid| i32::try_from(pid).ok()).collect()
}

/// Returns whether exactly this process is there and no zombie.
#[must_use]
pub(crate) fn lives(process: Identity) -> bool {
    facts(process.pid).is_some_and(|now| now.identity == process && now.is_alive())
}

/// Sends `signal` to exactly this process, and returns whether it was sent.
///
/// The process is pinned first and compared after that, with `still` deciding on its present facts, so a number that
/// was given to another process in between is never hit.
pub(crate) fn signal(target: Identity, signal: Signal, still: impl FnOnce(&Facts) -> bool) -> bool {
    // Zero, one and below mean whole groups, everything, or the first process.
    let Some(pid) = Some(target.pid).filter(|pid| *pid > 1).and_then(Pid::from_raw) else { return false };
    let Ok(pinned) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let same = facts(target.pid).is_some_and(|now| now.identity == target && now.is_alive() && still(&now));
    same && rustix::process::pidfd_send_signal(&pinned, signal).is_ok()
}

/// Returns every live process whose environment says `name=value` for each of `marks`.
///
/// A process that is gone by now, or that another user owns, is none of them.
///
/// # Errors
/// When the kernel does not show the processes, or one of them: then nobody knows whether there are any.
pub(crate) fn marked(marks: &[(&str, &str)]) -> ProcResult<Vec<Facts>> {
    marked_in(Path::new("/proc"), marks)
}

fn marked_in(proc: &Path, marks: &[(&str, &str)]) -> ProcResult<Vec<Facts>> {
    let read = procfs::process::all_processes_with_root(proc)?.map(|process| marked_one(&process?, marks));
    let shown = read.filter_map(|one| seen(one).transpose());
    shown.filter(|one| !one.as_ref().is_ok_and(|facts| !facts.is_alive())).collect()
}

fn marked_one(process: &Process, marks: &[(&str, &str)]) -> ProcResult<Option<Facts>> {
    let env = process.environ()?;
    let carries = |(name, value): &(&str, &str)| env.get(OsStr::new(name)).is_some_and(|it| it == value);
    if marks.iter().all(carries) { facts_of(process).map(Some) } else { Ok(None) }
}

/// Takes a process that is gone, or another user's, for none; any other failure, as having no file to spare, says nothing.
fn seen<T>(read: ProcResult<Option<T>>) -> ProcResult<Option<T>> {
    match read {
        Err(ProcError::NotFound(_) | ProcError::PermissionDenied(_)) => Ok(None),
        other => other,
    }
}

/// Returns the id that the kernel gave itself at its last boot.
///
/// # Errors
/// When the kernel does not show it.
pub(crate) fn boot_id() -> std::io::Result<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn sleeper(mark: &str) -> std::process::Child {
        Command::new("sleep").arg("60").env("SEXTON_TEST_MARK", mark).spawn().unwrap()
    }

    #[test]
    fn a_signal_reaches_exactly_the_process_that_was_meant() {
        let mut child = sleeper("exact");
        let pid = i32::try_from(child.id()).unwrap();
        let right = facts(pid).unwrap().identity;
        let recycled = Identity { started: right.started + 1, ..right };
        assert!(!signal(recycled, Signal::KILL, |_| true), "another start time is another process");
        assert!(!signal(right, Signal::KILL, |_| false), "what is no longer ours is left alone");
        assert!(child.try_wait().unwrap().is_none());
        assert!(signal(right, Signal::KILL, |_| true));
        child.wait().unwrap();
        assert_eq!(facts(pid), None);
        assert!(!signal(right, Signal::KILL, |_| true));
    }

    #[test]
    fn the_first_process_of_the_machine_is_never_signalled() {
        for pid in [-1, 0, 1] {
            assert!(!signal(Identity { pid, started: 0 }, Signal::CONT, |_| true), "{pid}");
        }
    }

    #[test]
    fn marks_and_descendants_find_a_child() {
        let mut child = sleeper("marks");
        let pid = i32::try_from(child.id()).unwrap();
        let me = i32::try_from(std::process::id()).unwrap();
        let found = |list: Vec<Facts>| list.iter().any(|facts| facts.identity.pid == pid);
        // Between fork and exec the child still shows this process's environment.
        while !found(marked(&[("SEXTON_TEST_MARK", "marks")]).unwrap()) {
            std::thread::yield_now();
        }
        assert!(!found(marked(&[("SEXTON_TEST_MARK", "marks"), ("SEXTON_OTHER", "x")]).unwrap()));
        assert!(found(descendants(me)));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_the_kernel_does_not_show_is_not_taken_for_nothing() {
        assert!(marked_in(Path::new("/no/such/folder"), &[("SEXTON_TEST_MARK", "none")]).is_err());
        let no_file_to_spare = ProcError::Io(std::io::Error::from_raw_os_error(24), None);
        assert!(seen::<Facts>(Err(no_file_to_spare)).is_err());
        assert!(seen::<Facts>(Err(ProcError::NotFound(None))).unwrap().is_none(), "it is gone");
    }
}
