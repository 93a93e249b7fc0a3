//! The runner's side of a shim: starting it, and talking with it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};

use crate::runner::process::Identity;
use crate::runner::shim::wire::{News, Order, SOCKET, Spec};

/// How long a shim may take to run its engine's program.
const START_MOST: Duration = Duration::from_secs(10);

/// A shim that runs an engine, whose pipes hang on the child.
pub(crate) struct Link {
    /// The shim's process.
    pub(crate) shim: Child,
    /// The engine's process.
    pub(crate) engine: Identity,
    news: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
}

impl Link {
    /// Starts a shim in `folder`, and the engine of `spec` under it.
    ///
    /// # Errors
    /// One sentence about what failed; nothing is left of the attempt then.
    pub(crate) async fn start(program: &Path, folder: &Path, spec: Spec) -> Result<Self, String> {
        let mut shim = Command::new(program)
            .arg("shim")
            .arg(folder)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the shim {} cannot be run: {error}", program.display()))?;
        let met = tokio::time::timeout(START_MOST, meet(&mut shim, folder, spec)).await;
        match met.unwrap_or_else(|_| Err("the shim did not answer in time".to_owned())) {
            Ok((engine, news, orders)) => Ok(Self { shim, engine, news, orders }),
            Err(why) => Err(give_up(shim, why).await),
        }
    }

    /// Asks for the stop. A shim that is gone is noticed by [`Link::news`].
    pub(crate) async fn stop(&mut self) {
        let _ = send(&mut self.orders, &Order::Stop { first: String::new(), signal: false, graces: None }).await;
    }

    /// Returns what the shim tells next; none when it is gone. Nothing is lost when the wait for it is given up.
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

type Met = (Identity, Lines<BufReader<OwnedReadHalf>>, OwnedWriteHalf);

async fn meet(shim: &mut Child, folder: &Path, spec: Spec) -> Result<Met, String> {
    let (from, mut orders) = connect(shim, folder).await?.into_split();
    let mut news = BufReader::new(from).lines();
    send(&mut orders, &Order::Start(Box::new(spec))).await.map_err(|error| format!("the shim is gone: {error}"))?;
    let first = news.next_line().await.ok().flatten().ok_or("the shim died while it started the engine")?;
    match serde_json::from_str(&first) {
        Ok(News::Started { engine, .. }) => Ok((engine, news, orders)),
        Ok(News::NotStarted { why }) => Err(why),
        _ => Err("the shim spoke another language; is it of another version?".to_owned()),
    }
}

async fn connect(shim: &mut Child, folder: &Path) -> Result<UnixStream, String> {
    // A socket's path may have about 100 bytes; the folder's own may be longer.
    let opened = File::open(folder).map_err(|error| format!("{} cannot be opened: {error}", folder.display()))?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd());
    loop {
        match UnixStream::connect(&path).await {
            Ok(stream) => return Ok(stream),
            Err(error) if shim.try_wait().ok().flatten().is_some() => {
                return Err(format!("the shim died at its start ({error})"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
}

async fn send(to: &mut OwnedWriteHalf, order: &Order) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    to.write_all(&line).await
}

/// A shim whose runner let go of it before it had an engine leaves by itself.
async fn give_up(mut shim: Child, why: String) -> String {
    drop(shim.stdin.take());
    if tokio::time::timeout(START_MOST, shim.wait()).await.is_err() {
        // It has not been waited for, so its number is still its own.
        let _ = shim.kill().await;
    }
    let mut said = Vec::new();
    if let Some(stderr) = shim.stderr.take() {
        let reading = stderr.take(4_096);
        tokio::pin!(reading);
        let _ = tokio::time::timeout(Duration::from_millis(200), reading.read_to_end(&mut said)).await;
    }
    let said = String::from_utf8_lossy(&said);
    if said.trim().is_empty() { why } else { format!("{why}: {}", said.trim()) }
}
