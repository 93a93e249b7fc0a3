//! Everything that reaches the terminal: text, tables, JSON and the last word of a command.
//!
//! Text that comes from a row, a runner or a file goes through [`escape`] before it is shown, so that no data can move the
//! cursor, recolour the screen or reorder what stands there. Colours are stripped when nobody looks at a terminal, or
//! `NO_COLOR` is set.

use std::io::{self, Write};
use std::process::ExitCode;

use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width};
use owo_colors::OwoColorize;
use serde::Serialize;

use crate::config::ConfigError;
use crate::time::{Ms, UtcMs, spoken};
use crate::verbs::VerbError;

/// How a command that could run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All was done, keeps and skips included: exit code 0.
    Done,
    /// Some sessions could not be handled: exit code 1.
    Incomplete,
}

/// Prints a line.
///
/// # Errors
/// When nobody reads any more.
pub(crate) fn line(text: impl std::fmt::Display) -> io::Result<()> {
    writeln!(anstream::stdout().lock(), "{text}")
}

/// Prints a remark beside the output, to standard error.
pub(crate) fn remark(text: impl std::fmt::Display) {
    // A remark that nobody can read is no reason to fail.
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Prints one JSON value for programs.
///
/// # Errors
/// When the value cannot be written as JSON, or nobody reads any more.
pub(crate) fn json<T: Serialize>(value: &T) -> io::Result<()> {
    plain(&serde_json::to_string_pretty(value)?)
}

/// Prints one JSON value for programs, on one line of its own.
///
/// # Errors
/// As [`json`].
pub(crate) fn json_line<T: Serialize>(value: &T) -> io::Result<()> {
    plain(&serde_json::to_string(value)?)
}

fn plain(text: &str) -> io::Result<()> {
    // JSON lets these stand in strings, and a terminal may obey them.
    let plain: String =
        text.chars().map(|c| if is_late_control(c) { format!("\\u{:04x}", c as u32) } else { c.into() }).collect();
    writeln!(anstream::stdout().lock(), "{plain}")
}

fn is_late_control(c: char) -> bool {
    ('\u{7f}'..='\u{9f}').contains(&c) || is_reordering(c)
}

/// Characters that change the direction of what follows.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes out what a terminal would obey instead of show: control characters, ANSI sequences, changes of direction.
#[must_use]
pub(crate) fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if c.is_control() || is_reordering(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Columns whose text may be broken into lines; an id that was broken could not be copied.
const MAY_WRAP: [&str; 5] = ["KEPT", "REPO", "RESULT", "WHAT HAPPENED", "WHY"];

/// Such text is not broken into narrower lines than this.
const LEAST_WIDTH: u16 = 28;

/// Prints rows under a header, in columns that are as wide as they need to be.
///
/// # Errors
/// When nobody reads any more.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<Cell>>) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    // Wraps to the terminal's width; without a terminal each row is one line.
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.iter().map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
    table.add_rows(rows);
    for (column, name) in table.column_iter_mut().zip(header) {
        column.set_padding((0, 2));
        column.set_constraint(match MAY_WRAP.contains(name) {
            // On a terminal that is too narrow even for this, the terminal breaks the lines.
            true => ColumnConstraint::LowerBoundary(Width::Fixed(LEAST_WIDTH)),
            false => ColumnConstraint::ContentWidth,
        });
    }
    line(table.trim_fmt())
}

/// Makes a cell of text that may come from anywhere.
pub(crate) fn cell(text: impl std::fmt::Display) -> Cell {
    Cell::new(escape(&text.to_string()))
}

/// Makes a cell of a figure.
pub(crate) fn figure(text: impl std::fmt::Display) -> Cell {
    cell(text).set_alignment(CellAlignment::Right)
}

/// Makes a cell that is green, or red when something is wrong.
pub(crate) fn judged(text: impl std::fmt::Display, good: bool) -> Cell {
    cell(text).fg(if good { Color::Green } else { Color::Red })
}

/// Writes a point in time for people, in UTC to the second.
#[must_use]
pub(crate) fn time(at: UtcMs) -> String {
    let text = at.to_string();
    text.split_once('.').map_or(text.clone(), |(seconds, _)| seconds.replacen('T', " ", 1))
}

/// Writes how long ago something was; `-` when it never was.
#[must_use]
pub(crate) fn ago(at: Option<UtcMs>, now: UtcMs) -> String {
    at.map_or_else(|| "-".to_owned(), |at| format!("{} ago", spoken(now.since(at).max(0))))
}

/// Writes a duration; `-` when there is none.
#[must_use]
pub(crate) fn duration(ms: Option<Ms>) -> String {
    ms.map_or_else(|| "-".to_owned(), spoken)
}

/// Says the last word of a command: its exit code, and on failure one line of why.
pub(crate) fn finish(result: &anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Incomplete) => ExitCode::from(1),
        // `sexton sessions | head`: the reader has all that it wanted.
        Err(error) if is_closed_pipe(error) => ExitCode::SUCCESS,
        Err(error) => {
            remark(format_args!("{} {}", "sexton:".red().bold(), sentence(error)));
            ExitCode::from(exit_code(error))
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// A fault in the settings comes with its line and a caret under it; everything else is one line.
fn sentence(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    if error.is::<ConfigError>() {
        return text.lines().map(escape).collect::<Vec<_>>().join("\n");
    }
    escape(&text)
}

/// A session that could not be handled is 1; a command that could not run is 2.
fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<VerbError>() {
        Some(
            VerbError::Ended { .. }
            | VerbError::NotTracked { .. }
            | VerbError::Generation { .. }
            | VerbError::Conflict(_)
            | VerbError::Runner(_),
        ) => 1,
        Some(VerbError::NotFound(_) | VerbError::NoRun(_) | VerbError::Invalid(_) | VerbError::Store(_)) | None => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(escape("\u{1b}[31mred\u{9b}0m\u{7f}"), "\\u{1b}[31mred\\u{9b}0m\\u{7f}");
        assert_eq!(escape("a\nb\tc\r"), "a\\nb\\tc\\r");
        assert_eq!(escape("left \u{202e}thgir"), "left \\u{202e}thgir");
        assert_eq!(escape("naïve 日本 🦀"), "naïve 日本 🦀");
    }

    #[test]
    fn times_are_short_for_people() {
        assert_eq!(time(UtcMs(1_500)), "1970-01-01 00:00:01");
        assert_eq!(ago(Some(UtcMs(0)), UtcMs(61_000)), "1 min 1 s ago");
        assert_eq!(ago(Some(UtcMs(9)), UtcMs(0)), "0 s ago");
        assert_eq!(ago(None, UtcMs(0)), "-");
    }

    #[test]
    fn a_session_that_was_not_handled_is_not_a_command_that_did_not_run() {
        let code = |error: VerbError| exit_code(&error.into());
        assert_eq!(code(VerbError::Runner(String::new())), 1);
        assert_eq!(code(VerbError::Conflict(String::new())), 1);
        assert_eq!(code(VerbError::NotFound("a".parse().unwrap())), 2);
        assert_eq!(code(VerbError::Invalid(String::new())), 2);
        assert_eq!(exit_code(&anyhow::anyhow!("bad")), 2);
    }
}
