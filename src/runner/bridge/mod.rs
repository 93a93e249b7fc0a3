//! `sexton opencode-bridge -- COMMAND…`: gives a server of OpenCode a standard input and output, for one session.
//!
//! It starts the server, opens one session in it, and writes one JSON line per event that concerns a session; commands
//! come as JSON lines, see [`wire`]. It is the engine's process under its shim and lives as long as the server does,
//! whether a runner is there or not. When its input ends or it gets SIGTERM, it aborts what runs, ends the server and
//! leaves with 0; when the server ends by itself, it leaves with the server's code. What the server leaves behind is the
//! shim's business.

mod api;
mod input;
mod server;
mod sse;
mod talk;
pub(crate) mod wire;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::runner::bridge::api::Credentials;
use crate::runner::bridge::server::Server;
use crate::runner::bridge::talk::Talk;

/// How long the aborts may take once the end is asked for.
const ABORT_MOST: Duration = Duration::from_millis(1_500);
/// How long the server may take to leave on SIGTERM; then it is left to the shim.
const END_MOST: Duration = Duration::from_secs(4);

/// How it came to an end.
enum Ending {
    /// The server left with this code.
    Left(u8),
    /// Its input ended, or it was told to end.
    Asked,
    /// It cannot go on.
    Failed(String),
}

/// Runs the bridge for the server's command in `args`, behind a `--`.
pub fn main(args: &[String]) -> ExitCode {
    let Some((program, rest)) = args.strip_prefix(&["--".to_owned()]).and_then(<[String]>::split_first) else {
        complain("opencode-bridge: give the server's command behind --");
        return ExitCode::from(2);
    };
    let run = async {
        let closed = CancellationToken::new();
        let commands = input::read(closed.clone());
        let (credentials, secret) = Credentials::make().map_err(|error| error.to_string())?;
        let server = Server::start(program, rest, &secret).map_err(|error| format!("{program:?}: {error}"))?;
        bridge(server, Talk::new(credentials)?, commands, closed).await
    };
    let ended = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(run));
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            complain(&format!("opencode-bridge: {why}"));
            ExitCode::FAILURE
        }
    }
}

async fn bridge(
    mut server: Server,
    talk: Talk,
    commands: tokio::sync::mpsc::Receiver<wire::Command>,
    closed: CancellationToken,
) -> Result<u8, String> {
    let mut told = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let url = server.url();
    let ending = tokio::select! {
        biased;
        code = server.left() => Ending::Left(code),
        () = closed.cancelled() => Ending::Asked,
        _ = told.recv() => Ending::Asked,
        why = talk.go(url, commands) => Ending::Failed(why),
    };
    match ending {
        Ending::Left(code) => Ok(code),
        Ending::Asked => {
            let _ = tokio::time::timeout(ABORT_MOST, talk.abort_all()).await;
            server.end(END_MOST).await;
            Ok(0)
        }
        Ending::Failed(why) => {
            server.end(END_MOST).await;
            Err(why)
        }
    }
}

/// Standard error is the only place left for it.
fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
