//! The step between the shim's fork and the engine's program: `--exec SOCKET SHIM CWD CGROUP COMMAND…`.
//!
//! It ties the engine's life to the shim's, moves into the engine's control group where there is one, then becomes the
//! engine. How that went is told over a socket that the kernel closes on success, so the shim learns it without a race.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::Signal;

/// How much sooner than its shim an engine is chosen when the machine is out of memory.
const SOONER: i32 = 100;
/// The highest value that the kernel takes.
const SOONEST: i32 = 1_000;

/// Becomes the engine; returns only when that failed.
pub(crate) fn main(args: &[String]) -> ExitCode {
    let [socket, shim, cwd, cgroup, program, rest @ ..] = args else { return ExitCode::from(2) };
    let Ok(mut told) = UnixStream::connect(socket) else { return ExitCode::from(2) };
    if !cgroup.is_empty() {
        // The shim looks whether it worked; without it there is still the subreaper.
        let _ = fs::write(Path::new(cgroup).join("cgroup.procs"), "0");
    }
    let _ = offer_to_the_oom_killer();
    let why = become_engine(shim, cwd, program, rest);
    // The shim may be gone; there is nobody else to tell.
    let _ = told.write_all(why.as_bytes());
    ExitCode::from(127)
}

fn become_engine(shim: &str, cwd: &str, program: &str, rest: &[String]) -> String {
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return format!("the engine could not be tied to its shim: {error}");
    }
    // A shim that died before the line above sends no signal any more.
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().to_string()).as_deref() != Some(shim) {
        return "the shim was gone before its engine ran".to_owned();
    }
    if let Err(error) = std::env::set_current_dir(cwd) {
        return format!("the folder {cwd:?} cannot be entered: {error}");
    }
    // The standard library gives it an empty signal mask and the default SIGPIPE.
    let error = Command::new(program).args(rest).exec();
    format!("the command {program:?} cannot be run: {error}")
}

fn offer_to_the_oom_killer() -> std::io::Result<()> {
    const FILE: &str = "/proc/self/oom_score_adj";
    let now: i32 = fs::read_to_string(FILE)?.trim().parse().unwrap_or(0);
    fs::write(FILE, now.saturating_add(SOONER).min(SOONEST).to_string())
}
