//! The parent of one engine, which outlives the runner: `sexton shim FOLDER`, or `sexton-shim FOLDER`.
//!
//! It holds the engine's three pipes, keeps its output on disk, and is the subreaper of everything below it: whatever
//! loses its parent comes back here, whatever it did to its session, group or environment. A runner comes and goes over
//! the socket in the session's folder; only an order ends the engine. Synchronous, no runtime.
//!
//! The first process only starts the one that holds, in a session of its own, and ends: no runner is ever the parent
//! of a shim, so a runner that was restarted is in no other place than the one before it.
//!
//! | file | does |
//! |---|---|
//! | [`wire`] | what is said, and the names of the files |
//! | `hold`, `orders` | the loop, and what a runner may order |
//! | `engine`, `birth`, `exec` | the engine, and how it comes to run |
//! | `log`, `errors`, `stream`, `input`, `once` | what goes through its pipes |
//! | `keeper`, `ladder`, `waiter`, [`cgroup`] | its end |
//! | `door`, `caller`, `own`, `pages` | the socket, a connection, this program, its memory |

mod birth;
mod caller;
pub(crate) mod cgroup;
mod door;
mod engine;
mod errors;
mod exec;
mod hold;
mod input;
mod keeper;
mod ladder;
mod log;
mod once;
mod orders;
mod own;
mod pages;
mod stream;
mod waiter;
pub(crate) mod wire;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{ExitCode, Stdio};

use crate::runner::files;
use crate::runner::shim::birth::EXEC_STEP;
use crate::runner::shim::hold::Shim;
use crate::runner::shim::own::Own;
use crate::runner::shim::wire::{EXIT, LOCK};

/// The inner argument of the process that holds.
const HELD_STEP: &str = "--held";

/// Starts a shim for the session folder in `args`, or is one of its inner steps.
///
/// `prefix` is what stands before `args` in a call of this program that is to be a shim.
pub fn main(prefix: &[&str], args: &[String]) -> ExitCode {
    match args {
        [step, rest @ ..] if step == EXEC_STEP => exec::main(rest),
        [step, folder] if step == HELD_STEP => {
            // There is nobody to tell.
            if hold(Own::new(prefix), Path::new(folder)).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        [folder] => detach(&Own::new(prefix), folder),
        _ => ExitCode::from(2),
    }
}

/// Starts the process that holds, and leaves it to itself.
fn detach(own: &Own, folder: &str) -> ExitCode {
    let started = own.again().and_then(|mut command| {
        let command = command.args([HELD_STEP, folder]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
    });
    match started {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "the shim of {folder} cannot be started: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Holds the engine of `folder`, if no other shim does or did.
fn hold(own: Own, folder: &Path) -> io::Result<()> {
    // Nothing is ever said on standard error: it may be anybody's.
    std::panic::set_hook(Box::new(|_| {}));
    rustix::process::setsid()?;
    // Within its folder every path is short, however long the folder's own is.
    std::env::set_current_dir(folder)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // For people who look at a list of processes.
    let _ = fs::write("/proc/self/comm", "sexton-shim");
    let lock = File::create(LOCK)?;
    lock.try_lock().map_err(|_| io::Error::other("another shim holds the lock"))?;
    // Whoever removes the file does not make this shim look dead.
    let _whole = files::lock_folder(Path::new(".")).map_err(|_| io::Error::other("another shim holds the folder"))?;
    // Looked at under the lock: who wrote it held the lock, and nobody comes after it.
    if fs::exists(EXIT)? {
        return Err(io::Error::other("the engine of this folder has ended"));
    }
    Shim::new(own)?.run();
    Ok(())
}
