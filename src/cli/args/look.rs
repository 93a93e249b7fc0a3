//! Options of the commands that look, and of the one that sweeps.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::report::PartName;
use crate::session::Id;

/// `sexton sweep`
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_name = "PARTS", value_parser = part, help = "Only these parts: runs, idle, orphans, strays, deliveries [default: all]")]
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
        Ok(PartName::Observe) | Err(_) => Err("a part is one of runs, idle, orphans, strays, deliveries".to_owned()),
        Ok(part) => Ok(part),
    }
}

/// Reads how many of something are to be listed.
fn count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text:?} is not a number of lines: a whole number from 1 on")),
        Ok(count) => Ok(count),
    }
}

/// `sexton sessions`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct SessionsArgs {
    /// Ended ones too
    #[arg(long)]
    pub all: bool,
    /// Only this owner's [default: those of all]
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = count)]
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
    /// The file holds one JSON object a line, with the columns of a session as keys and times as whole milliseconds since
    /// 1970 in UTC. Rows without an owner become the configured owner's.
    Import {
        /// The file with one JSON object a line; - is standard input
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
    /// At most this many entries, the newest ones
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = count)]
    pub limit: u32,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// `sexton runs`
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Only those in this session, with what they reported
    pub id: Option<Id>,
    /// At most this many, the newest
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = count)]
    pub limit: u32,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// A plain list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// At most this many, the newest
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = count)]
    pub limit: u32,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}
