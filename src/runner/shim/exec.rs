//! `sexton shim-exec SOCKET CWD COMMAND…`: the step between the shim's fork and the engine's program.
//!
//! It ties the engine's life to the shim's, then becomes the engine. How that went is told over a socket that the kernel
//! closes on success, so the shim learns it without a race.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::Signal;

/// Becomes the engine; returns only when that failed.
pub fn main(args: &[String]) -> ExitCode {
    let [socket, shim, cwd, program, rest @ ..] = args else { return ExitCode::from(2) };
    let Ok(mut told) = UnixStream::connect(socket) else { return ExitCode::from(2) };
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
    let error = Command::new(program).args(rest).exec();
    format!("the command {program:?} cannot be run: {error}")
}
