//! Starting the engine: its pipes, its control group, and the certainty that its program runs.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::runner::process::{self, Identity};
use crate::runner::shim::cgroup::Leaf;
use crate::runner::shim::own::Own;
use crate::runner::shim::wire::Spec;

/// The socket over which the step before the engine tells how it went, within the session's folder.
const EXEC_SOCKET: &str = "x";
/// The inner argument of that step.
pub(crate) const EXEC_STEP: &str = "--exec";

/// An engine that was just started.
#[derive(Debug)]
pub(crate) struct Newborn {
    /// Its process.
    pub(crate) engine: Identity,
    /// The other end of its stdin; never blocks.
    pub(crate) stdin: PipeWriter,
    /// The other end of its stdout; never blocks.
    pub(crate) stdout: PipeReader,
    /// The other end of its stderr; never blocks.
    pub(crate) stderr: PipeReader,
    /// Its control group, when it is in one.
    pub(crate) leaf: Option<Leaf>,
}

/// Starts the engine, and returns once its program runs: the kernel closes the exec socket at that moment.
///
/// What must be true: this is the thread that lives as long as the shim, since the engine dies with it.
///
/// # Errors
/// When it does not run; nothing is left of the attempt then.
pub(crate) fn start(own: &Own, spec: &Spec) -> io::Result<Newborn> {
    let leaf = spec.cgroup.as_deref().and_then(|under| Leaf::make(under, &session()?));
    match run(own, spec, leaf.as_ref()) {
        Ok((engine, stdin, stdout, stderr)) => {
            Ok(Newborn { engine, stdin, stdout, stderr, leaf: leaf.and_then(taken) })
        }
        Err(error) => {
            if let Some(leaf) = leaf {
                leaf.kill();
                leaf.remove();
            }
            Err(error)
        }
    }
}

/// Keeps the control group only if the engine did move into it.
fn taken(leaf: Leaf) -> Option<Leaf> {
    if leaf.is_empty() {
        leaf.remove();
        return None;
    }
    Some(leaf)
}

fn session() -> Option<String> {
    Some(std::env::current_dir().ok()?.file_name()?.to_string_lossy().into_owned())
}

type Running = (Identity, PipeWriter, PipeReader, PipeReader);

fn run(own: &Own, spec: &Spec, leaf: Option<&Leaf>) -> io::Result<Running> {
    let listener = listen()?;
    let (its_stdin, stdin) = io::pipe()?;
    let (stdout, its_stdout) = io::pipe()?;
    let (stderr, its_stderr) = io::pipe()?;
    rustix::io::ioctl_fionbio(&stdin, true)?;
    rustix::io::ioctl_fionbio(&stdout, true)?;
    rustix::io::ioctl_fionbio(&stderr, true)?;
    let me = rustix::process::getpid().as_raw_nonzero().get().to_string();
    let mut command = own.again()?;
    command.args([EXEC_STEP, EXEC_SOCKET, &me, &spec.cwd]).arg(leaf.map_or(Path::new(""), Leaf::folder));
    command.args(&spec.command).env_clear().envs(&spec.env).process_group(0);
    let mut child = command.stdin(its_stdin).stdout(its_stdout).stderr(its_stderr).spawn()?;
    // It holds the engine's ends of the pipes.
    drop(command);
    let told = hear_exec(&listener, &mut child);
    let _ = fs::remove_file(EXEC_SOCKET);
    match told.and_then(|why| seen(&child, why)) {
        Ok(engine) => Ok((engine, stdin, stdout, stderr)),
        Err(error) => {
            // It was not waited for, or is known to be gone, so no other process is meant.
            let _ = child.kill();
            child.wait()?;
            Err(error)
        }
    }
}

fn seen(child: &Child, why: String) -> io::Result<Identity> {
    if !why.is_empty() {
        return Err(io::Error::other(why));
    }
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    // The child is not waited for yet, so its number cannot have gone to another process.
    process::facts(pid).map(|facts| facts.identity).ok_or_else(|| io::Error::other("the engine cannot be seen"))
}

fn listen() -> io::Result<UnixListener> {
    match fs::remove_file(EXEC_SOCKET) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(EXEC_SOCKET)
}

fn hear_exec(listener: &UnixListener, child: &mut Child) -> io::Result<String> {
    while !readable(listener)? {
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("the engine's process ended before it ran: {status}")));
        }
    }
    let mut why = String::new();
    listener.accept()?.0.read_to_string(&mut why)?;
    Ok(why)
}

/// Waits a moment for the step to call.
fn readable(listener: &UnixListener) -> io::Result<bool> {
    const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let mut watched = [PollFd::new(listener, PollFlags::IN)];
    match rustix::event::poll(&mut watched, Some(&MOMENT)) {
        Err(Errno::INTR) => Ok(false),
        polled => Ok(polled? > 0),
    }
}
