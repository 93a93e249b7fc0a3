//! Options of the commands that enrol runners and hand out tokens.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::session::Id;
use crate::token::Scopes;

/// `sexton runners`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
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
    Add(AddRunner),
    /// Remove a runner; its idle sessions count as those of a machine that is gone
    Remove {
        /// The runner
        id: Id,
        /// Although it holds engines: they go on, and nothing here will stop them
        #[arg(long)]
        force: bool,
    },
    /// Forget a runner's identity, state folder, epoch and protocol, and accept what answers at its URL
    Reset {
        /// The runner
        id: Id,
    },
}

/// `sexton runners add`
#[derive(Debug, Args)]
pub struct AddRunner {
    /// The identity that it answers with
    pub id: Id,
    /// Its base URL, such as <http://127.0.0.1:7118>
    #[arg(help = "Its base URL, such as http://127.0.0.1:7118")]
    pub url: String,
    /// The file with its secret
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Never stop an engine on it without a condition that it checks itself
    #[arg(long)]
    pub require_conditional_stop: bool,
}

/// `sexton tokens`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
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
        /// What it may do, joined by commas: read, use, reap, admin
        #[arg(long, value_name = "SCOPES")]
        scope: Scopes,
        /// Print JSON for programs
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token
    Revoke {
        /// Its id, as `sexton tokens` lists it
        id: Id,
    },
}
