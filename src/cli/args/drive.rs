//! Options of the commands that use sessions, and of those that hold the reaper back.

use std::path::PathBuf;

use clap::Args;

use crate::session::Id;
use crate::time::{Span, parse_duration};

/// `sexton start`
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The engine, a table of `[engines]` on the runner
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub engine: String,
    /// The folder it works in
    #[arg(long, value_name = "DIR")]
    pub repo: PathBuf,
    /// The runner to start it on, or to move it to [default: where it is, else the one of this machine, else the only one]
    #[arg(long, value_name = "RUNNER")]
    pub runner: Option<Id>,
    /// Move a session that is open on another runner although its engine there cannot be stopped first
    #[arg(long, requires = "runner")]
    pub force: bool,
    /// The idle window of a session that is opened [default: the rule's]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub idle_after: Option<Span>,
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
    /// Start the engine again, with its conversation, if the session has ended
    #[arg(long)]
    pub resume: bool,
}

/// `sexton attach`
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The session
    pub id: Id,
    /// Print one JSON object per event for programs
    #[arg(long)]
    pub json: bool,
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
    /// The session [default: the one whose engine this runs in]
    pub id: Option<Id>,
    /// For how long, such as 12h
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub time: Span,
    /// Why, for whoever reads the timeline
    #[arg(long, value_name = "TEXT")]
    pub because: String,
}

fn span(text: &str) -> Result<Span, String> {
    parse_duration(text).map(Span)
}

/// `sexton pause`
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT")]
    pub because: Option<String>,
}
