//! `sexton shim SESSION_DIR`: the parent of one engine, so that nothing the engine starts can get away.
//!
//! It is the subreaper of everything below it: whatever loses its parent comes back here, whatever it did to its
//! session, group or environment. The engine inherits the shim's stdin, stdout and stderr, and the shim lets go of them,
//! so the runner's pipes end at the engine. Synchronous, no runtime; the main thread is the one that forks, since the
//! kernel ties an engine's life to the forking *thread*.

mod exec;
mod keeper;
mod ladder;
pub(crate) mod wire;

use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus};

pub use exec::main as exec_main;

use crate::protocol::EngineExit;
use crate::runner::files;
use crate::runner::process::{self, Identity};
use crate::runner::shim::keeper::{Event, FIRST_WORDS, Keeper};
use crate::runner::shim::wire::{EXIT, LOCK, News, Order, SOCKET, Spec};
use crate::time::Ms;

/// The socket over which `shim-exec` tells how it went, within the session's folder.
const EXEC_SOCKET: &str = "x";
/// How long a wait for a child that failed is left alone.
const WAIT_AGAIN: Duration = Duration::from_millis(10);

/// Runs the shim for the session folder in `args`; returns when nothing of its engine is left.
pub fn main(args: &[String]) -> ExitCode {
    let [folder] = args else { return ExitCode::from(2) };
    match run(Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        // Before the engine ran, stderr is still the runner's pipe.
        Err(error) => {
            let _ = writeln!(io::stderr(), "the shim of {folder} cannot run: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &Path) -> io::Result<()> {
    // Within its folder every path is short, however long the folder's own is.
    std::env::set_current_dir(folder)?;
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let lock = File::create(LOCK)?;
    lock.try_lock().map_err(|_| io::Error::other("another shim holds its lock"))?;
    let (mut runner, orders) = meet_runner()?;
    let mut lines = BufReader::new(orders).lines();
    let first = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
    let Order::Start(spec) = serde_json::from_str(&first)? else { return Err(io::ErrorKind::InvalidData.into()) };
    match start(&spec) {
        Ok(engine) => {
            tell(&mut runner, &News::Started { engine });
            keep(engine, &spec, runner, lines)
        }
        Err(error) => {
            tell(&mut runner, &News::NotStarted { why: error.to_string() });
            Ok(())
        }
    }
}

fn meet_runner() -> io::Result<(UnixStream, UnixStream)> {
    let listener = listen(SOCKET)?;
    // The runner holds the other end of stdin, so a runner that died is noticed without waiting for it.
    let input = io::stdin();
    let mut watched = [PollFd::new(&listener, PollFlags::IN), PollFd::new(&input, PollFlags::empty())];
    rustix::event::poll(&mut watched, Some(&limit(FIRST_WORDS)))?;
    if !watched.first().is_some_and(|listener| listener.revents().contains(PollFlags::IN)) {
        return Err(io::Error::other("no runner came"));
    }
    let (runner, _) = listener.accept()?;
    let orders = runner.try_clone()?;
    Ok((runner, orders))
}

fn listen(name: &str) -> io::Result<UnixListener> {
    match std::fs::remove_file(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(name)?;
    std::fs::set_permissions(name, Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn readable(listener: &UnixListener, wait: Ms) -> io::Result<bool> {
    let mut watched = [PollFd::new(listener, PollFlags::IN)];
    Ok(rustix::event::poll(&mut watched, Some(&limit(wait)))? > 0)
}

fn limit(wait: Ms) -> Timespec {
    Timespec { tv_sec: wait / 1_000, tv_nsec: wait % 1_000 * 1_000_000 }
}

/// Starts the engine, and returns once its program runs: the kernel closes the exec socket at that moment.
fn start(spec: &Spec) -> io::Result<Identity> {
    let listener = listen(EXEC_SOCKET)?;
    let own = std::env::current_exe()?;
    let me = rustix::process::getpid().as_raw_nonzero().get().to_string();
    let mut command = Command::new(own);
    command.arg("shim-exec").args([EXEC_SOCKET, &me, &spec.cwd]).args(&spec.command);
    let mut child = command.env_clear().envs(&spec.env).process_group(0).spawn()?;
    let told = hear_exec(&listener, &mut child);
    let _ = std::fs::remove_file(EXEC_SOCKET);
    let why = told?;
    if !why.is_empty() {
        child.wait()?;
        return Err(io::Error::other(why));
    }
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    // The child is not waited for yet, so its number cannot have gone to another process.
    process::facts(pid).map(|facts| facts.identity).ok_or_else(|| io::Error::other("the engine cannot be seen"))
}

fn hear_exec(listener: &UnixListener, child: &mut Child) -> io::Result<String> {
    while !readable(listener, 20)? {
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("the engine's process ended before it ran: {status}")));
        }
    }
    let mut why = String::new();
    listener.accept()?.0.read_to_string(&mut why)?;
    Ok(why)
}

fn keep(engine: Identity, spec: &Spec, runner: UnixStream, orders: io::Lines<BufReader<UnixStream>>) -> io::Result<()> {
    let_go_of_pipes()?;
    let (sender, events) = mpsc::channel();
    let for_orders = sender.clone();
    std::thread::spawn(move || hear_orders(orders, &for_orders));
    std::thread::spawn(move || wait_for_children(&sender));
    let mut voice = runner.try_clone()?;
    let gone = Keeper::new(engine, spec.graces, Box::new(move |news| tell(&mut voice, news))).run(&events);
    // The file is for a runner that comes later; the one that is here hears it anyway.
    let kept = files::write_json(Path::new(EXIT), &gone);
    let mut runner = runner;
    tell(&mut runner, &News::Gone(gone));
    kept
}

/// Lets go of the engine's pipes: the shim's copies would keep an end of input from ever reaching the engine.
fn let_go_of_pipes() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

/// Brings the runner's order to stop; a runner that is gone means the same. An order that it does not know stops nothing.
fn hear_orders(orders: io::Lines<BufReader<UnixStream>>, events: &Sender<Event>) {
    let mut orders = orders.map_while(Result::ok).filter_map(|order| serde_json::from_str(&order).ok());
    // The order itself matters no more than the end of all orders.
    let _ = orders.find(|order| matches!(order, Order::Stop));
    let _ = events.send(Event::Stop);
}

/// Takes in every child that ends, until the kernel says that there is none left.
fn wait_for_children(events: &Sender<Event>) {
    loop {
        match waited(rustix::process::wait(WaitOptions::empty())) {
            Some(Event::Empty) => break,
            Some(event) => {
                let _ = events.send(event);
            }
            // A wait that fails at once must not spin.
            None => std::thread::sleep(WAIT_AGAIN),
        }
    }
    let _ = events.send(Event::Empty);
}

/// Returns what a wait for any child says. Only "there is no child" proves that nothing is left; another failure is
/// nothing at all, and is waited for again.
fn waited(answer: rustix::io::Result<Option<(Pid, WaitStatus)>>) -> Option<Event> {
    match answer {
        Ok(Some((pid, status))) => Some(Event::Exited(pid.as_raw_nonzero().get(), exit(status))),
        Err(Errno::CHILD) => Some(Event::Empty),
        Ok(None) | Err(_) => None,
    }
}

fn exit(status: WaitStatus) -> EngineExit {
    EngineExit { code: status.exit_status().map(i64::from), signal: status.terminating_signal().map(i64::from) }
}

/// Tells the runner; one that is gone is not told, and that harms nothing.
fn tell(runner: &mut UnixStream, news: &News) {
    if let Ok(mut line) = serde_json::to_vec(news) {
        line.push(b'\n');
        let _ = runner.write_all(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_word_that_no_child_is_left_proves_it() {
        assert!(matches!(waited(Err(Errno::CHILD)), Some(Event::Empty)));
        for doubt in [Errno::INTR, Errno::INVAL, Errno::NOSYS, Errno::NOMEM] {
            assert!(waited(Err(doubt)).is_none(), "{doubt}");
        }
        assert!(waited(Ok(None)).is_none());
    }
}
