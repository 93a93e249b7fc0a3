//! The server's process: its start, the address that it prints, its end.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;

use crate::runner::bridge::api::PASSWORD;
use crate::runner::bridge::complain;

/// A server that was started.
pub(crate) struct Server {
    child: Child,
    url: watch::Receiver<Option<String>>,
}

impl Server {
    /// Starts it with the secret that callers must show.
    ///
    /// # Errors
    /// When its program cannot be run.
    pub(crate) fn start(program: &str, args: &[String], secret: &str) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(args)
            .env(PASSWORD, secret)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let (sender, url) = watch::channel(None);
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(listen(stdout, sender));
        }
        Ok(Self { child, url })
    }

    /// Returns where its address will stand once it has printed it.
    pub(crate) fn url(&self) -> watch::Receiver<Option<String>> {
        self.url.clone()
    }

    /// Waits until it is gone, and returns its code; 128 and the signal's number when a signal ended it.
    pub(crate) async fn left(&mut self) -> u8 {
        self.child.wait().await.map_or(1, code)
    }

    /// Sends it SIGTERM and waits, at most for `most`; nothing harder is done to it here.
    ///
    /// What must be true: the session is being stopped, or its bridge cannot go on. The server has not been waited for
    /// when it is sent, so its number is still its own.
    pub(crate) async fn end(&mut self, most: Duration) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
            let _ = tokio::time::timeout(most, self.child.wait()).await;
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Looks for the address, and passes on whatever else the server prints: a full pipe would stop it.
async fn listen(stdout: ChildStdout, found: watch::Sender<Option<String>>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match address(&line).filter(|_| found.borrow().is_none()) {
            Some(url) => {
                found.send_replace(Some(url));
            }
            None => complain(&line),
        }
    }
}

fn address(line: &str) -> Option<String> {
    let (_, url) = line.split_once("listening on ")?;
    let url = url.split_whitespace().next()?.trim_end_matches('/');
    url.starts_with("http://").then(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_the_line_that_tells_it() {
        let found = |line| address(line);
        assert_eq!(
            found("opencode server listening on http://127.0.0.1:4096").as_deref(),
            Some("http://127.0.0.1:4096")
        );
        assert_eq!(found("listening on http://[::1]:80/ (ipv6)").as_deref(), Some("http://[::1]:80"));
        assert_eq!(found("Warning: server is unsecured, see http://127.0.0.1:1"), None);
    }
}
