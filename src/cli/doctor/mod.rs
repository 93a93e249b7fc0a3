//! `sexton doctor`: what is wrong with this machine's set-up, and what to do about it.
//!
//! `gather/` looks at the world and judges nothing; `checks/` judges what was gathered and looks at nothing. A new check
//! is one function there and one line in the list below. Nothing is changed, but that the store is opened as by every
//! command.

mod checks;
mod finding;
mod gather;

use owo_colors::OwoColorize;
use serde_json::json;

use crate::cli::Context;
use crate::cli::args::JsonArgs;
use crate::cli::doctor::checks::{disk, engines, logout, network, runners, schedule, store, units, webhooks};
use crate::cli::doctor::finding::{Finding, Level, counted};
use crate::cli::doctor::gather::Facts;
use crate::cli::output::{self, Outcome, escape};
use crate::config::ConfigError;

/// Every check, in the order in which the findings are told.
const CHECKS: [fn(&Facts) -> Vec<Finding>; 10] = [
    |facts| vec![checks::settings::readable(facts.file.as_deref(), facts.log_fault.as_deref())],
    |facts| store::check(&facts.store, &facts.owner),
    |facts| runners::check(&facts.runners, facts.store.opened().is_some()),
    |facts| network::check(&facts.network, &facts.runners),
    |facts| logout::check(&facts.machine, &facts.places),
    |facts| units::check(&facts.units),
    |facts| facts.folders.iter().flat_map(disk::check).collect(),
    |facts| engines::check(&facts.engines),
    |facts| schedule::check(&facts.store, &facts.schedule, facts.now),
    |facts| webhooks::check(&facts.webhooks, &facts.store, facts.now),
];

/// Looks at everything, and tells what it found. A problem is exit code 1; a warning is none.
///
/// # Errors
/// When nobody reads any more.
pub(crate) async fn run(context: &Context, args: JsonArgs) -> anyhow::Result<Outcome> {
    let facts = gather::gather(context).await;
    tell(&CHECKS.iter().flat_map(|check| check(&facts)).collect::<Vec<_>>(), args)
}

/// Tells that nothing can be looked at before the settings can be read.
///
/// # Errors
/// When nobody reads any more.
pub(crate) fn without_settings(error: &ConfigError, args: JsonArgs) -> anyhow::Result<Outcome> {
    tell(&[checks::settings::unusable(&error.to_string())], args)
}

fn tell(findings: &[Finding], args: JsonArgs) -> anyhow::Result<Outcome> {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (problems, warnings) = (count(Level::Problem), count(Level::Warning));
    if args.json {
        output::json(&json!({ "problems": problems, "warnings": warnings, "findings": findings }))?;
    } else {
        for finding in findings {
            output::line(line(finding))?;
        }
        output::line(format_args!("{}, {}.", counted(problems, "problem"), counted(warnings, "warning")))?;
    }
    Ok(if problems == 0 { Outcome::Done } else { Outcome::Incomplete })
}

fn line(finding: &Finding) -> String {
    let word = format!("{:8}", finding.level.as_str());
    let word = match finding.level {
        Level::Ok => word.green().to_string(),
        Level::Warning => word.yellow().to_string(),
        Level::Problem => word.red().to_string(),
    };
    // A fault in the settings comes with its line and a caret under it.
    let message: Vec<String> = finding.message.lines().map(escape).collect();
    format!("{word} {}", message.join("\n         "))
}
