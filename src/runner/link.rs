//! The runner's side of a shim: starting one, finding one again, and talking with it.
//!
//! A shim is never this process's child, so that one that was just started and one that an earlier life of the runner
//! started are handled alike.

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;

use crate::runner::files;
use crate::runner::process::{self, Identity};
use crate::runner::shim::wire::{Containment, HELD, Held, Hello, LOCK, News, Order, SOCKET, Spec};

/// How long a shim may take to listen, and to say who it is.
const ANSWER_MOST: Duration = Duration::from_secs(10);
/// How long it may take to run its engine's program.
const START_MOST: Duration = Duration::from_secs(30);
/// How often a shim that does not listen yet is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(2);

/// How much of a shim's news is read at once: there is one such room per engine, and nearly all news are shorter.
const READ: usize = 1024;

/// A connection to a shim.
pub(crate) struct Link {
    news: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
}

/// What a shim holds once its engine runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    /// The engine's process.
    pub(crate) engine: Identity,
    /// The shim's process.
    pub(crate) shim: Identity,
    /// What holds the engine's tree together.
    pub(crate) containment: Containment,
}

/// Why there is no engine.
pub(crate) enum NotStarted {
    /// There is none, and nothing is left of the attempt.
    For(String),
    /// Nobody knows: its shim was asked, and did not answer.
    Unknown(String),
}

impl Link {
    /// Starts a shim in `folder`, and the engine of `spec` under it.
    ///
    /// # Errors
    /// One sentence about what failed, and whether anything may be left of the attempt.
    pub(crate) async fn start(program: &[String], folder: &Path, spec: Spec) -> Result<(Self, Started), NotStarted> {
        spawn(program, folder).await.map_err(NotStarted::For)?;
        let Ok((mut link, hello)) = tokio::time::timeout(ANSWER_MOST, meet(folder)).await else {
            // One that listens only now leaves, since nobody asks it for anything.
            return Err(NotStarted::For("the shim did not answer in time".to_owned()));
        };
        let unknown = |why: &str| NotStarted::Unknown(why.to_owned());
        if link.send(&Order::Start(Box::new(spec))).await.is_err() {
            return Err(unknown("the shim is gone"));
        }
        let answer = tokio::time::timeout(START_MOST, link.first_answer()).await;
        match answer.unwrap_or_else(|_| Err(unknown("the shim did not start the engine in time"))) {
            Ok((engine, containment)) => Ok((link, Started { engine, shim: hello.shim, containment })),
            Err(why) => Err(why),
        }
    }

    async fn first_answer(&mut self) -> Result<(Identity, Containment), NotStarted> {
        loop {
            match self.news().await {
                Some(News::Started { engine, containment }) => return Ok((engine, containment)),
                Some(News::NotStarted { why }) => return Err(NotStarted::For(why)),
                Some(_) => {}
                None => return Err(NotStarted::Unknown("the shim died while it started the engine".to_owned())),
            }
        }
    }

    /// Finds the shim that is at work in `folder`.
    ///
    /// # Errors
    /// When nobody answers there, which does not mean that there is no shim.
    pub(crate) async fn find(folder: &Path) -> io::Result<(Self, Box<Hello>)> {
        let met = tokio::time::timeout(ANSWER_MOST, async {
            let mut link = Self::over(connect(folder).await?);
            let hello = link.hello().await?;
            Ok((link, hello))
        });
        met.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    fn over(stream: UnixStream) -> Self {
        let (from, orders) = stream.into_split();
        Self { news: BufReader::with_capacity(READ, from).lines(), orders }
    }

    async fn hello(&mut self) -> io::Result<Box<Hello>> {
        match self.news().await {
            Some(News::Hello(hello)) => Ok(hello),
            Some(_) => Err(io::Error::other("the shim speaks another language")),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Asks for something.
    ///
    /// # Errors
    /// When the connection is gone.
    pub(crate) async fn send(&mut self, order: &Order) -> io::Result<()> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        self.orders.write_all(&line).await
    }

    /// Returns what the shim tells next; none when the connection is gone. Nothing is lost when the wait is given up.
    pub(crate) async fn news(&mut self) -> Option<News> {
        loop {
            let line = self.news.next_line().await.ok()??;
            // News that this version does not know is no news, and above all no sign that the shim is gone.
            if let Ok(news) = serde_json::from_str(&line) {
                return Some(news);
            }
        }
    }
}

/// Runs the program that leaves a shim behind, and waits for the program, not for the shim.
async fn spawn(program: &[String], folder: &Path) -> Result<(), String> {
    let [program, args @ ..] = program else { return Err("there is no shim to be run".to_owned()) };
    let mut command = Command::new(program);
    command.args(args).arg(folder).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let spawned = command.kill_on_drop(true).spawn();
    let running = spawned.map_err(|error| format!("the shim {program} cannot be run: {error}"))?;
    let ended = tokio::time::timeout(ANSWER_MOST, running.wait_with_output()).await;
    let output = ended.map_err(|_| "the shim did not detach in time".to_owned())?;
    let output = output.map_err(|error| format!("the shim {program} cannot be waited for: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("the shim failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

/// Waits for the shim that is on its way.
async fn meet(folder: &Path) -> (Link, Box<Hello>) {
    loop {
        if let Ok(stream) = connect(folder).await {
            let mut link = Link::over(stream);
            if let Ok(hello) = link.hello().await {
                return (link, hello);
            }
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

async fn connect(folder: &Path) -> io::Result<UnixStream> {
    // A socket's path may have about 100 bytes; the folder's own may be longer.
    let opened = File::open(folder)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd())).await
}

/// A session's folder in which no shim is at work, and none can be while this lives.
pub(crate) struct Vacant {
    _locks: Option<(File, File)>,
}

/// Returns whether no shim is at work in the folder, and keeps it so; none when one is, or when that cannot be told.
///
/// What must be true for it to be vacant: its lock is free, the shim that is written down there does not live, and nobody
/// listens on its socket. One alone would do but for somebody who removes files from the folder.
#[must_use]
pub(crate) fn vacant(folder: &Path) -> Option<Vacant> {
    let locks = files::lock_folder(folder).and_then(|whole| {
        let open = File::options().write(true).create(true).truncate(false).open(folder.join(LOCK));
        let lock = open.map_err(TryLockError::Error)?;
        lock.try_lock().map(|()| (whole, lock))
    });
    let locks = match locks {
        Ok(locks) => Some(locks),
        // Without its folder, no shim ever comes to run an engine.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => return None,
    };
    (!holder_lives(folder) && !somebody_listens(folder)).then_some(Vacant { _locks: locks })
}

fn holder_lives(folder: &Path) -> bool {
    let Ok(Some(held)) = files::read_json::<Held>(&folder.join(HELD)) else { return false };
    process::boot_id().is_ok_and(|boot_id| boot_id == held.boot_id) && process::lives(held.shim)
}

fn somebody_listens(folder: &Path) -> bool {
    let Ok(opened) = File::open(folder) else { return false };
    let socket = format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd());
    match std::os::unix::net::UnixStream::connect(socket) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::shim::wire::VERSION;

    #[test]
    fn a_folder_is_vacant_only_if_nothing_speaks_for_a_shim() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path();
        assert!(vacant(&folder.join("nowhere")).is_some());
        let held = vacant(folder).unwrap();
        assert!(vacant(folder).is_none(), "its lock is held");
        drop(held);

        let listener = std::os::unix::net::UnixListener::bind(folder.join(SOCKET)).unwrap();
        assert!(vacant(folder).is_none(), "somebody listens, though the lock is free");
        drop(listener);
        assert!(vacant(folder).is_some());

        let me = process::facts(i32::try_from(std::process::id()).unwrap()).unwrap().identity;
        let boot_id = process::boot_id().unwrap();
        let written = |shim, boot_id: &str| Held {
            version: VERSION,
            shim,
            engine: me,
            boot_id: boot_id.to_owned(),
            containment: Containment::Subreaper,
            cgroup: None,
        };
        for (shim, boot, is_vacant) in [
            (me, boot_id.as_str(), false),
            (Identity { started: me.started + 1, ..me }, boot_id.as_str(), true),
            (me, "another", true),
        ] {
            files::write_json(&folder.join(HELD), &written(shim, boot)).unwrap();
            assert_eq!(vacant(folder).is_some(), is_vacant, "{shim:?} {boot}");
        }
    }
}
