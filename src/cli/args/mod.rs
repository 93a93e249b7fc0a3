//! Every command and option, and with them all help texts.
//!
//! `look.rs` has what looks and sweeps, `drive.rs` what uses sessions and holds the reaper back, `manage.rs` what enrols.

mod drive;
mod look;
mod manage;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use drive::{AttachArgs, EndArgs, KeepArgs, SendArgs, StartArgs, WhyArgs};
pub use look::{ListArgs, OneArgs, RunsArgs, SessionsArgs, SessionsCommand, SweepArgs, TimelineArgs};
pub use manage::{AddRunner, RunnersArgs, RunnersCommand, TokensArgs, TokensCommand};

/// Stops coding-agent sessions that nobody uses any more, and says why.
#[derive(Debug, Parser)]
#[command(name = "sexton", version, about, after_help = AFTER)]
pub struct Cli {
    /// The settings file.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        display_order = 900,
        help = "Settings file [default: $SEXTON_CONFIG, else $XDG_CONFIG_HOME/sexton/config.toml]"
    )]
    pub config: Option<PathBuf>,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER: &str = "\
Examples:
  sexton up                      worker and runner on this machine
  sexton sweep --dry-run         what one pass would do now, and why not more
  sexton explain ID              why a session was stopped, or why not

Exit codes:
  0  done, keeps and skips of every kind included
  1  some sessions could not be handled, or doctor found a problem
  2  could not run: bad settings, an unusable store, bad arguments, an id that there is not

A session is named by its id, or by a beginning of it that no other session has, of 4 characters at least.

SEXTON_LOG=debug shows what goes on inside; every setting has a variable, such as SEXTON_POLICY__IDLE_AFTER=2h.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run worker and runner together on this machine
    ///
    /// Needs no set-up. The runner is a process of its own: it goes on when this ends, and the next `sexton up` finds it,
    /// and its engines, again.
    Up(UpArgs),
    /// Run the worker: schedule, store and API
    ///
    /// For a machine whose runner is started apart from it. Sweeps at its first tick, not at its start.
    Serve,
    /// Run the runner of this machine
    ///
    /// Owns the engines of this machine: starts them, and stops them when that was asked for and may be done.
    Runner(RunnerArgs),
    /// A command on the store and the runners.
    #[command(flatten)]
    OnStore(StoreCommand),
    /// Say what is wrong with this machine's set-up, and what to do about it
    ///
    /// Looks at the settings, the store, the runners, the disk, the engines and the schedule, and whether a logout or a
    /// unit of systemd would kill the engines. Changes none of it. Exit code 1 when a problem was found; warnings are none.
    Doctor(JsonArgs),
    /// Print every setting as it holds now
    Config(JsonArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The commands that work on the store and the runners, whether a worker runs or not.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Make one pass now
    ///
    /// The same code as the schedule's tick; works with or without a worker running. Prints what it did, or with
    /// --dry-run what it would do and why not more, and writes nothing then.
    Sweep(SweepArgs),
    /// List sessions, with what each costs; or bring them in from another system
    Sessions(SessionsArgs),
    /// Say why a session was stopped, or why it was not and when it would be
    ///
    /// Shows each rule with its figure and its limit. Asking is no use of the session.
    Explain(OneArgs),
    /// List runs, delegated pieces of work, the newest first: those of one session or of all
    ///
    /// Looking is no use of the session. Runs are begun and finished over the API: docs/runs.md.
    Runs(RunsArgs),
    /// Show what happened, to one session or to all
    Timeline(TimelineArgs),
    /// List past passes
    Sweeps(ListArgs),
    /// Start an engine in a folder
    ///
    /// Prints the session's id. Where a session of that engine is open in the folder already, prints its id and starts
    /// nothing.
    #[command(after_help = "Example:\n  sexton start claude --repo ~/src/app -- --model opus")]
    Start(StartArgs),
    /// Send a message to a session
    Send(SendArgs),
    /// Show what a session's engine says, as it says it
    ///
    /// Begins with the text of the turn that runs, and ends when the engine is gone. Ctrl-C only detaches. Somebody looks,
    /// so it is a use of the session for as long as it lasts.
    Attach(AttachArgs),
    /// End a session: stop its engine, then close its row
    ///
    /// Whatever the engine does: this is a person's wish, and no rule is asked. When the runner does not stop the engine,
    /// the session stays open.
    End(EndArgs),
    /// Keep a session from being reaped, until a time
    ///
    /// An agent that runs this leaves the session out: it keeps its own, for a day at most at once, and never shorter than
    /// somebody else keeps it.
    #[command(
        after_help = "Examples:\n  sexton keep ID --for 12h --because 'demo at ten'\n  sexton keep --for 2h --because 'long build'"
    )]
    Keep(KeepArgs),
    /// Pause the reaper: passes decide and report, and act on nothing
    Pause(WhyArgs),
    /// Let the reaper act again
    Resume,
    /// List runners; or enrol, remove or reset one
    Runners(RunnersArgs),
    /// List tokens; or create or revoke one
    Tokens(TokensArgs),
}

/// `sexton up`
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Show what Sexton does on sample engines with windows of seconds, in a throw-away folder
    #[arg(long)]
    pub demo: bool,
    /// With --demo: end once everything was shown; exit code 0 only if all of it happened
    #[arg(long, requires = "demo")]
    pub once: bool,
}

/// `sexton runner`
#[derive(Debug, Args)]
pub struct RunnerArgs {
    /// Leave the terminal's session, as `sexton up` asks for.
    #[arg(long, hide = true)]
    pub detach: bool,
}

/// `--json`
#[derive(Debug, Clone, Copy, Args)]
pub struct JsonArgs {
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}
