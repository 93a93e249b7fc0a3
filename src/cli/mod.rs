//! The command line: one file per command, and all printing.
//!
//! [`main`] parses, loads the settings, starts the log and a runtime, runs one command, and says the last word. Every
//! command works on the store and the runners themselves, whether a worker runs or not. What commands do to sessions is
//! done elsewhere, in [`crate::sweep`], [`crate::verbs`] and [`crate::store`]; nothing here decides about a session.

pub mod args;
mod attach;
mod completions;
mod config;
mod context;
mod demo;
mod doctor;
mod end;
mod enrol;
mod explain;
mod ids;
mod keep;
mod lease;
mod listen;
mod live;
mod output;
mod pause;
mod reload;
mod runner;
mod runners;
mod runs;
mod secret;
mod send;
mod serve;
mod sessions;
mod signals;
mod start;
mod sweep;
mod sweeps;
mod timeline;
mod tokens;
mod up;

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Parser;
use tokio::runtime::{Builder, Runtime};

pub use context::{Context, client_settings, tools};
pub use output::Outcome;

use crate::cli::args::{Cli, Command, StoreCommand};
use crate::memory;
use crate::telemetry;
use crate::tools::Tools;

/// Runs the command that this process was called with.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => output::finish(&run(cli)),
        Err(error) => {
            // Help goes to standard output, a fault to standard error; there is nobody else to tell.
            let _ = error.print();
            ExitCode::from(if error.use_stderr() { 2 } else { 0 })
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<Outcome> {
    if let Command::Completions { shell } = cli.command {
        return completions::run(shell);
    }
    let context = match (Context::load(cli.config), &cli.command) {
        // Settings that nothing can run with are what it is asked about.
        (Err(error), Command::Doctor(args)) => return doctor::without_settings(&error, *args),
        (context, _) => context?,
    };
    let usual = match &cli.command {
        // The demonstration tells everything itself.
        Command::Up(args) if args.demo => "error",
        Command::Up(_) | Command::Serve | Command::Runner(_) => "info",
        Command::OnStore(_) | Command::Config(_) | Command::Doctor(_) | Command::Completions { .. } => "warn",
    };
    let log = telemetry::init(&context.log(usual)).map_err(|why| anyhow!(why));
    if !matches!(cli.command, Command::Doctor(_)) {
        log?;
    }
    if is_daemon(&cli.command) {
        // What reading the command line and the settings took is not needed again. There is no other thread yet.
        memory::give_back();
    }
    runtime(&cli.command).context("the runtime cannot be started")?.block_on(dispatch(&context, cli.command))
}

/// How many threads wait for the disk or the kernel at once.
const BLOCKING_MOST: usize = 8;

fn is_daemon(command: &Command) -> bool {
    match command {
        Command::Up(_) | Command::Serve | Command::Runner(_) => true,
        Command::OnStore(_) | Command::Config(_) | Command::Doctor(_) | Command::Completions { .. } => false,
    }
}

/// Daemons and passes do many things at once; everything else is over before a second thread would pay.
fn runtime(command: &Command) -> std::io::Result<Runtime> {
    let many = is_daemon(command) || matches!(command, Command::OnStore(StoreCommand::Sweep(_)));
    let mut builder = if many { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    // Each that was ever used at once costs memory for a while.
    builder.max_blocking_threads(BLOCKING_MOST);
    builder.enable_all().build()
}

async fn dispatch(context: &Context, command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Up(args) => up::run(context, args).await,
        Command::Serve => serve::run(context).await,
        Command::Runner(args) => runner::run(context, args).await,
        Command::Config(args) => config::run(context, args),
        Command::Doctor(args) => doctor::run(context, args).await,
        Command::Completions { shell } => completions::run(shell),
        Command::OnStore(StoreCommand::Keep(args)) if args.id.is_none() => keep::in_engine(context, &args).await,
        Command::OnStore(command) => {
            let tools = context.tools().await?;
            let result = with_tools(context, &tools, command).await;
            tools.store.close().await;
            result
        }
    }
}

/// Runs a command that works on the store and the runners.
async fn with_tools(context: &Context, tools: &Tools, command: StoreCommand) -> anyhow::Result<Outcome> {
    match command {
        StoreCommand::Sweep(args) => sweep::run(context, tools, args).await,
        StoreCommand::Sessions(args) => sessions::run(context, tools, args).await,
        StoreCommand::Explain(args) => explain::run(tools, args).await,
        StoreCommand::Runs(args) => runs::run(tools, args).await,
        StoreCommand::Timeline(args) => timeline::run(tools, args).await,
        StoreCommand::Sweeps(args) => sweeps::run(tools, args).await,
        StoreCommand::Start(args) => start::run(context, tools, args).await,
        StoreCommand::Send(args) => send::run(context, tools, args).await,
        StoreCommand::Attach(args) => attach::run(tools, args).await,
        StoreCommand::End(args) => end::run(context, tools, args).await,
        StoreCommand::Keep(args) => match &args.id {
            Some(id) => keep::run(context, tools, &ids::whole(tools, id).await?, &args).await,
            None => keep::in_engine(context, &args).await,
        },
        StoreCommand::Pause(args) => pause::pause(context, tools, args).await,
        StoreCommand::Resume => pause::resume(tools).await,
        StoreCommand::Runners(args) => runners::run(tools, args).await,
        StoreCommand::Tokens(args) => tokens::run(tools, args).await,
    }
}
