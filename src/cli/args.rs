//! Every command and option, and with them all help texts.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::session::Id;
use crate::sweep::PartName;
use crate::time::Span;

/// Stops coding-agent sessions that nobody uses any more, and says why.
#[derive(Debug, Parser)]
#[command(name = "sexton", version, about, propagate_version = true, after_help = AFTER)]
pub struct Cli {
    /// The settings file.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
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

Exit codes: 0 done (keeps and skips included), 1 some sessions could not be handled, 2 could not run.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run worker and runner together on this machine
    Up(UpArgs),
    /// Run the worker: schedule, store and API
    Serve,
    /// Run the runner of this machine
    Runner,
    /// Make one pass now
    ///
    /// The same code as the schedule's tick; works with or without a worker running. Prints what it did, or with
    /// --dry-run what it would do and why not more, and writes nothing then.
    Sweep(SweepArgs),
    /// List sessions, with what each costs; or bring them in from another system
    Sessions(SessionsArgs),
    /// Say why a session was stopped, or why it was not and when it would be
    Explain(OneArgs),
    /// Show what happened, to one session or to all
    Timeline(TimelineArgs),
    /// List past passes
    Sweeps(ListArgs),
    /// Start an engine in a folder
    Start(StartArgs),
    /// Send a message to a session
    Send(SendArgs),
    /// End a session: stop its engine, then close its row
    End(EndArgs),
    /// Keep a session from being reaped, until a time
    Keep(KeepArgs),
    /// Pause the reaper: passes decide and report, and act on nothing
    Pause(WhyArgs),
    /// Let the reaper act again
    Resume,
    /// List runners; or enrol, remove or reset one
    Runners(RunnersArgs),
    /// List tokens; or create or revoke one
    Tokens(TokensArgs),
    /// Print every setting as it holds now
    Config(JsonArgs),
    /// Print completions for a shell
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
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

/// `--json`
#[derive(Debug, Clone, Copy, Args)]
pub struct JsonArgs {
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// `sexton sweep`
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_name = "PARTS", value_parser = part, help = "Only these parts: runs, idle, orphans, strays [default: all]")]
    pub only: Vec<PartName>,
    /// Only say what would be done; write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn part(text: &str) -> Result<PartName, String> {
    match text.parse() {
        Ok(PartName::Observe) | Err(_) => Err("a part is one of runs, idle, orphans, strays".to_owned()),
        Ok(part) => Ok(part),
    }
}

/// `sexton sessions`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SessionsArgs {
    /// Ended ones too
    #[arg(long)]
    pub all: bool,
    /// At most this many
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub limit: u32,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
    /// What to do instead of listing.
    #[command(subcommand)]
    pub command: Option<SessionsCommand>,
}

/// `sexton sessions …`
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// Bring in sessions from another system: all of the file or nothing
    ///
    /// The file holds one JSON object a line, with the columns of a session as keys and times as whole milliseconds UTC.
    /// Rows without an owner become the configured owner's.
    Import {
        /// The file with one JSON object a line.
        file: PathBuf,
    },
}

/// A command about one session.
#[derive(Debug, Args)]
pub struct OneArgs {
    /// The session
    pub id: Id,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// `sexton timeline`
#[derive(Debug, Args)]
pub struct TimelineArgs {
    /// Only this session; reading one session's timeline counts as using it
    pub id: Option<Id>,
    /// At most this many entries, the newest
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub limit: u32,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// A plain list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// At most this many, the newest
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub limit: u32,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// `sexton start`
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The engine, a table of [engines] on the runner
    pub engine: String,
    /// The folder it works in
    #[arg(long, value_name = "DIR")]
    pub repo: PathBuf,
    /// The runner to start it on [default: the one of this machine]
    #[arg(long, value_name = "RUNNER")]
    pub runner: Option<Id>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
    /// Arguments for the engine
    #[arg(last = true, value_name = "ARGS")]
    pub args: Vec<String>,
}

/// `sexton send`
#[derive(Debug, Args)]
pub struct SendArgs {
    /// The session
    pub id: Id,
    /// The message
    pub text: String,
}

/// `sexton end`
#[derive(Debug, Args)]
pub struct EndArgs {
    /// The session
    pub id: Id,
}

/// `sexton keep`
#[derive(Debug, Args)]
pub struct KeepArgs {
    /// The session
    pub id: Id,
    /// For how long, such as 12h
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub time: Span,
    /// Why, for whoever reads the timeline
    #[arg(long, value_name = "TEXT")]
    pub because: String,
}

fn span(text: &str) -> Result<Span, String> {
    crate::time::parse_duration(text).map(Span)
}

/// `sexton pause`
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT")]
    pub because: Option<String>,
}

/// `sexton runners`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RunnersArgs {
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
    /// What to do instead of listing.
    #[command(subcommand)]
    pub command: Option<RunnersCommand>,
}

/// `sexton runners …`
#[derive(Debug, Subcommand)]
pub enum RunnersCommand {
    /// Enrol a runner, or change where an enrolled one is
    Add {
        /// The identity that it answers with.
        id: Id,
        /// Its base URL, such as `http://127.0.0.1:7118`.
        url: String,
        /// The file with its secret
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
        /// Never stop an engine on it without a condition that it checks itself
        #[arg(long)]
        require_conditional_stop: bool,
    },
    /// Remove a runner; its idle sessions count as those of a machine that is gone
    Remove {
        /// The runner.
        id: Id,
    },
    /// Forget a runner's identity, epoch and protocol, and accept what answers at its URL
    Reset {
        /// The runner.
        id: Id,
    },
}

/// `sexton tokens`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TokensArgs {
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
    /// What to do instead of listing.
    #[command(subcommand)]
    pub command: Option<TokensCommand>,
}

/// `sexton tokens …`
#[derive(Debug, Subcommand)]
pub enum TokensCommand {
    /// Make a token and print it, once
    Create {
        /// Whose it is
        #[arg(long, value_name = "NAME")]
        owner: String,
        /// What it may do: read, use, reap, admin
        #[arg(long, value_name = "SCOPES", value_delimiter = ',', required = true)]
        scope: Vec<String>,
        /// Print JSON for programs
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token
    Revoke {
        /// Its id, as `sexton tokens` lists it.
        id: Id,
    },
}
