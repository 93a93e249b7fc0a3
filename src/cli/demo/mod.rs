//! `sexton up --demo`: what Sexton does, on sample engines with windows of seconds, in a throw-away folder.
//!
//! Everything is real but the length of the windows: real processes under the real runner, the worker on its schedule,
//! the API. `stage.rs` sets the scene, `runners.rs` holds the two things that have to happen at a chosen moment, `show.rs`
//! tells what happens and checks that all of it did.

mod runners;
mod show;
mod stage;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use crate::api;
use crate::cli::demo::show::Show;
use crate::cli::demo::stage::{OWNER, Stage};
use crate::cli::output::{self, Outcome};

/// Runs the demonstration; with `once` until everything was shown, else until `shutdown`.
///
/// # Errors
/// When the scene cannot be set: no folder, no free port, no process.
pub(crate) async fn run(once: bool, shutdown: CancellationToken) -> anyhow::Result<Outcome> {
    let folder =
        tempfile::Builder::new().prefix("sexton-demo-").tempdir().context("no throw-away folder can be made")?;
    let stage = Stage::set(folder.path()).await?;
    output::line(stage.welcome())?;
    let stop = shutdown.child_token();
    let worker = tokio::spawn(api::serve(stage.tools(), OWNER.to_owned(), stage.take_listener()?, stop.clone()));
    let mut show = Show::of(&stage);
    let complete = show.run(shutdown.clone()).await?;
    let broken_off = shutdown.is_cancelled() && !complete;
    output::line(if broken_off { "Broken off before everything was shown.".to_owned() } else { show.verdict() })?;
    if !once && complete {
        output::line("It goes on until you press Ctrl-C; the sample engines then end with it.")?;
        shutdown.cancelled().await;
    }
    stop.cancel();
    worker.await.context("the worker did not end cleanly")??;
    stage.strike().await?;
    Ok(if complete || (broken_off && !once) { Outcome::Done } else { Outcome::Incomplete })
}
