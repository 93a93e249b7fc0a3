//! The bridge's standard input. A thread of its own reads it, since such a read cannot be given up.

use std::io::{self, BufRead};
use std::thread;

use tokio::sync::mpsc::{self, Receiver};
use tokio_util::sync::CancellationToken;

use crate::runner::bridge::complain;
use crate::runner::bridge::wire::Command;

/// How many commands may wait; whoever writes more waits, too.
const WAITING_MOST: usize = 16;

/// Returns the commands as they come, and cancels `closed` at the input's end.
pub(crate) fn read(closed: CancellationToken) -> Receiver<Command> {
    let (sender, commands) = mpsc::channel(WAITING_MOST);
    thread::spawn(move || {
        let lines = io::stdin().lock().lines().map_while(Result::ok);
        for line in lines.filter(|line| !line.trim().is_empty()) {
            match serde_json::from_str(&line) {
                Ok(command) => {
                    if sender.blocking_send(command).is_err() {
                        break;
                    }
                }
                Err(error) => complain(&format!("opencode-bridge: not a command: {error}")),
            }
        }
        closed.cancel();
    });
    commands
}
