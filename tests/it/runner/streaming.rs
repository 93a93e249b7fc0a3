//! An engine's output read by a client that is dropped again and again, from a runner that is killed again and again.

use std::sync::Arc;
use std::time::Duration;

use sexton::protocol::Cursor;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::support::daemon::{Daemon, home_of_a_past_life};
use crate::support::runner::{Engines, SECRET};
use crate::support::stream::{Heard, Stream, at, events};

const LINES: u64 = 100_000;

/// Prints its lines in 400 parts once it is told to.
const ENGINE: &str = "read -r go; i=0; while [ $i -lt 400 ]; do seq $((i*250+1)) $((i*250+250)); i=$((i+1)); \
                      sleep 0.01; done";

fn chance(least: u64, most: u64) -> Duration {
    let span = u128::from(most - least);
    Duration::from_millis(least + u64::try_from(uuid::Uuid::new_v4().as_u128() % span).unwrap())
}

/// What a client has, and it remembers nothing else.
struct Read {
    cursor: Cursor,
    lines: u64,
    ended: u64,
    connections: u64,
}

impl Read {
    fn new() -> Self {
        Self { cursor: at(0), lines: 0, ended: 0, connections: 0 }
    }

    /// Takes in an event, which must be the one that follows.
    fn take(&mut self, heard: &Heard) {
        match heard.kind.as_str() {
            "line" => {
                self.lines += 1;
                assert_eq!(heard.data["line"], self.lines.to_string(), "after {} lines", self.lines - 1);
                self.cursor = heard.cursor.unwrap();
            }
            "ended" => self.ended += 1,
            "ping" => {}
            _ => panic!("{heard:?}"),
        }
    }

    /// Reads for a while.
    async fn read(&mut self, client: &reqwest::Client, base: &str) {
        let request = client.get(format!("{base}{}", events("s1", self.cursor))).bearer_auth(SECRET);
        let Some(mut stream) = Stream::open(request).await else { return };
        self.connections += 1;
        while let Some(heard) = stream.next().await {
            self.take(&heard);
        }
    }
}

/// Kills the runner and starts the next one, until it is told to stop; returns the last one and how many were killed.
async fn kill_again_and_again(
    home: Arc<TempDir>,
    mut daemon: Daemon,
    base: watch::Sender<String>,
    mut done: watch::Receiver<bool>,
) -> (Daemon, u64) {
    let mut kills = 0;
    loop {
        daemon.ready().await;
        tokio::select! {
            _ = done.wait_for(|done| *done) => return (daemon, kills),
            () = tokio::time::sleep(chance(50, 500)) => {}
        }
        daemon.kill();
        kills += 1;
        daemon = Daemon::start(&home).await;
        base.send_replace(daemon.base.clone());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_gets_each_line_once_however_often_it_and_the_runner_are_killed() {
    let home = home_of_a_past_life().await;
    let _engines = Engines(Some(Arc::clone(&home)));
    let daemon = Daemon::start(&home).await;
    daemon.begin("s1", ENGINE).await;
    assert_eq!(daemon.say("s1", "go").await.0, 200);
    let (base, current) = watch::channel(daemon.base.clone());
    let (done, is_done) = watch::channel(false);
    let killing = tokio::spawn(kill_again_and_again(Arc::clone(&home), daemon, base, is_done));

    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut read = Read::new();
    let whole = tokio::time::timeout(Duration::from_secs(120), async {
        while read.ended == 0 {
            assert!(!killing.is_finished());
            let base = current.borrow().clone();
            let _ = tokio::time::timeout(chance(10, 150), read.read(&client, &base)).await;
        }
    });
    whole.await.unwrap();
    assert_eq!((read.lines, read.ended), (LINES, 1));
    done.send_replace(true);
    let (daemon, kills) = killing.await.unwrap();
    println!("{} lines over {} connections, {kills} runners killed", read.lines, read.connections);
    assert!(kills >= 5 && read.connections >= 20, "{kills} kills, {} connections", read.connections);

    let mut again = Stream::open(daemon.request(&events("s1", read.cursor))).await.unwrap();
    let kinds: Vec<String> = again.rest().await.into_iter().map(|heard| heard.kind).collect();
    assert_eq!(kinds, ["ended"], "whoever comes again hears the end, once");
    let mut whole = Stream::open(daemon.request(&events("s1", at(0)))).await.unwrap();
    let mut fresh = Read::new();
    whole.rest().await.iter().for_each(|heard| fresh.take(heard));
    assert_eq!((fresh.lines, fresh.ended, fresh.cursor), (LINES, 1, read.cursor));
}
