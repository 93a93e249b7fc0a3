//! Is there room where state lies, and does it stay there?

use std::path::PathBuf;

use crate::cli::doctor::finding::{Check, Finding};
use crate::timeline::size;

const CHECK: Check = Check("disk");

/// With less, records and the output of engines soon cannot be written.
const LEAST: u64 = 100_000_000;
/// With less, a person should have a look.
const LITTLE: u64 = 1_000_000_000;

/// A folder that must outlive a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    /// What lies in it, in words.
    pub(crate) what: &'static str,
    /// The folder.
    pub(crate) path: PathBuf,
    /// How it is, or why that cannot be told.
    pub(crate) state: Result<FolderState, String>,
}

/// How a folder is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FolderState {
    /// Bytes that may still be written.
    pub(crate) free_bytes: u64,
    /// Files that may still be made; none where the file system has no such limit.
    pub(crate) free_files: Option<u64>,
    /// Whether it may be written to.
    pub(crate) writable: bool,
    /// The kind of file system, where it is one that is no place for state.
    pub(crate) unfit: Option<Unfit>,
    /// The folder above it that is cleaned without asking.
    pub(crate) cleaned: Option<PathBuf>,
}

/// A file system that is no place for state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// In memory.
    Memory,
    /// On another machine.
    Network,
}

/// The folder can be written, has room, and is not swept away.
pub(crate) fn check(folder: &Folder) -> Vec<Finding> {
    let (what, path) = (folder.what, folder.path.display());
    let state = match &folder.state {
        Ok(state) => state,
        Err(why) => {
            return vec![
                CHECK.problem(format!("The folder {path} of {what} cannot be looked at ({why}): make it usable.")),
            ];
        }
    };
    let mut found = Vec::new();
    if !state.writable {
        found.push(CHECK.problem(format!(
            "The folder {path} of {what} cannot be written: give it to the user who runs Sexton, or mount it writable."
        )));
    }
    found.extend(room(folder, state));
    found.extend(kind(folder, state));
    if found.is_empty() {
        let free = size(i64::try_from(state.free_bytes).unwrap_or(i64::MAX));
        found.push(CHECK.ok(format!("The folder {path} of {what} can be written and has {free} free.")));
    }
    found
}

fn room(folder: &Folder, state: &FolderState) -> Option<Finding> {
    let path = folder.path.display();
    let free = size(i64::try_from(state.free_bytes).unwrap_or(i64::MAX));
    let what = folder.what;
    if state.free_bytes < LEAST {
        return Some(CHECK.problem(format!(
            "Where {what} lie, in {path}, only {free} are free: engines stand still when their output cannot be written, and no stop begins that cannot be recorded; make room."
        )));
    }
    if state.free_files.is_some_and(|files| files < 1_000) {
        return Some(CHECK.problem(format!(
            "Where {what} lie, in {path}, hardly a file can be made any more: the file system has no inodes left; delete small files."
        )));
    }
    (state.free_bytes < LITTLE).then(|| {
        CHECK.warning(format!("Where {what} lie, in {path}, only {free} are free; make room before it is full."))
    })
}

fn kind(folder: &Folder, state: &FolderState) -> Vec<Finding> {
    let (what, path) = (folder.what, folder.path.display());
    let move_it = "set XDG_STATE_HOME, or store.url and runner.state_dir, to a folder on a local disk";
    let unfit = state.unfit.map(|unfit| match unfit {
        Unfit::Memory => {
            CHECK.warning(format!("The folder {path} of {what} lies in memory and is lost at a reboot; {move_it}."))
        }
        Unfit::Network => CHECK.warning(format!(
            "The folder {path} of {what} lies on another machine, where locks cannot be relied on; {move_it}."
        )),
    });
    let cleaned = state.cleaned.as_ref().map(|above| {
        CHECK.warning(format!(
            "The folder {path} of {what} lies below {}, which is cleaned without asking; {move_it}.",
            above.display()
        ))
    });
    unfit.into_iter().chain(cleaned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::testing::one;
    use crate::cli::doctor::finding::Level;

    fn said(change: impl FnOnce(&mut FolderState)) -> (Level, String) {
        let mut state = FolderState {
            free_bytes: 50 * LITTLE,
            free_files: Some(1 << 20),
            writable: true,
            ..FolderState::default()
        };
        change(&mut state);
        one(check(&Folder { what: "the runner's records", path: "/s".into(), state: Ok(state) }))
    }

    #[test]
    fn room_and_rights_are_enough_or_it_is_said() {
        assert_eq!(
            said(|_| ()),
            (Level::Ok, "The folder /s of the runner's records can be written and has 50.0 GB free.".to_owned())
        );
        assert_eq!(said(|state| state.free_bytes = LITTLE).0, Level::Ok);
        assert_eq!(said(|state| state.free_bytes = LITTLE - 1).0, Level::Warning);
        assert_eq!(said(|state| state.free_bytes = LEAST).0, Level::Warning);
        assert_eq!(said(|state| state.free_bytes = LEAST - 1).0, Level::Problem);
        assert_eq!(said(|state| state.free_files = Some(999)).0, Level::Problem);
        assert_eq!(said(|state| state.free_files = None).0, Level::Ok);
        assert_eq!(said(|state| state.writable = false).0, Level::Problem);
        let gone = Folder { what: "the store", path: "/s".into(), state: Err("it hangs".to_owned()) };
        assert_eq!(one(check(&gone)).0, Level::Problem);
    }

    #[test]
    fn a_place_that_does_not_last_is_told() {
        for (change, word) in [
            ((|state| state.unfit = Some(Unfit::Memory)) as fn(&mut FolderState), "lost at a reboot"),
            (|state| state.unfit = Some(Unfit::Network), "locks cannot be relied on"),
            (|state| state.cleaned = Some("/tmp".into()), "below /tmp, which is cleaned"),
        ] {
            let (level, said) = said(change);
            assert!(level == Level::Warning && said.contains(word), "{said}");
        }
    }
}
