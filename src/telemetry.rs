//! The log: where it goes, how it looks, and how its fields are called.
//!
//! It goes to stderr, since stdout belongs to what a command was asked for. Colours are for terminals only.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{Directive, LevelFilter};

use crate::config::{LogConfig, LogFormat};

/// Names of the log's fields, so that one thing has one name. Durations carry their unit.
pub mod field {
    /// A runner.
    pub const RUNNER_ID: &str = "runner_id";
    /// The pass that it belongs to.
    pub const SWEEP_ID: &str = "sweep_id";
    /// What came of it.
    pub const OUTCOME: &str = "outcome";
    /// Why something began: a schedule, a person, the API.
    pub const TRIGGER: &str = "trigger";
    /// How long it took, in milliseconds.
    pub const ELAPSED_MS: &str = "elapsed_ms";
    /// How many it concerns.
    pub const COUNT: &str = "count";
    /// What went wrong, in words.
    pub const ERROR: &str = "error";
}

/// A crate that tells more than anyone asked for: its every start is an `info` without meaning to a person.
const TALKATIVE: &str = "tokio_cron_scheduler";

/// Starts the log of this process.
///
/// # Errors
/// Says in one sentence what is wrong with the filter, or that the process has a log already.
pub fn init(config: &LogConfig) -> Result<(), String> {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter(&config.filter)?)
        .with_writer(std::io::stderr)
        .with_ansi(colours);
    let started = match config.format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| format!("the log cannot be started: {error}"))
}

/// Reads a filter such as `info` or `info,sexton::sweep=debug`.
///
/// # Errors
/// Says in one sentence which part of it is not understood.
pub fn filter(text: &str) -> Result<EnvFilter, String> {
    let mut filter = EnvFilter::default();
    if !text.contains(TALKATIVE) && text.trim() != "off" {
        filter = filter.add_directive(directive(&format!("{TALKATIVE}=error"))?);
    }
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        filter = filter.add_directive(directive(part)?);
    }
    Ok(filter)
}

fn directive(part: &str) -> Result<Directive, String> {
    // A word alone would be taken for the name of a target, and a misspelt level would log nothing.
    let known = is_level(part) || part.contains(['=', '[']);
    let read = part.parse().ok().filter(|_| known);
    read.ok_or_else(|| {
        format!("log.filter: {part:?} is neither a level (error, warn, info, debug, trace, off) nor a filter such as \"sexton::sweep=debug\"")
    })
}

fn is_level(part: &str) -> bool {
    part.parse::<LevelFilter>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_filters_are_read() {
        for text in
            ["info", "off", "WARN", "warn,sexton::sweep=debug", " info , sexton=trace", "", "tokio_cron_scheduler=info"]
        {
            assert!(filter(text).is_ok(), "{text}");
        }
        let shown = filter("info,sexton::sweep=debug").unwrap().to_string();
        assert!(shown.contains("sexton::sweep=debug") && shown.contains("tokio_cron_scheduler=error"), "{shown}");
        assert_eq!(filter("off").unwrap().to_string(), "off");
    }

    #[test]
    fn a_bad_filter_is_refused_in_one_sentence() {
        for text in ["info,sexton=loud", "=", "a=b=c", "nonsense", "warn,verbose", "sexton::sweep"] {
            let error = filter(text).unwrap_err();
            assert!(error.starts_with("log.filter: ") && !error.contains('\n'), "{error}");
        }
    }
}
