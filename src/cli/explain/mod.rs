//! `sexton explain`: why was this session stopped, or why was it not, and when would it be?

use std::io;

use comfy_table::Cell;
use owo_colors::OwoColorize;

use crate::cli::args::OneArgs;
use crate::cli::ids;
use crate::cli::output::{self, Outcome, cell, escape, figure};
use crate::cli::sessions::engine_word;
use crate::policy::Finding;
use crate::sweep::{Explanation, explain};
use crate::time::{UtcMs, spoken};
use crate::timeline::size;
use crate::tools::Tools;
use crate::verbs::VerbError;
use crate::verdict::Verdict;

/// Explains one session. Asks its runner read-only questions, and is no use of the session.
///
/// # Errors
/// When there is no such session, or the store fails.
pub(crate) async fn run(tools: &Tools, args: OneArgs) -> anyhow::Result<Outcome> {
    let id = ids::whole(tools, &args.id).await?;
    let explanation = explain(tools, &id).await?.ok_or(VerbError::NotFound(id))?;
    if args.json {
        output::json(&explanation)?;
    } else {
        print(&explanation, tools.clock.now())?;
    }
    Ok(Outcome::Done)
}

fn print(explanation: &Explanation, now: UtcMs) -> io::Result<()> {
    let session = &explanation.session;
    let (engine, runner) = (escape(&session.engine), &session.runner_id);
    let which = format!("Session {}: {engine} on runner {runner} in {}", session.id, escape(&session.repo));
    output::line(which.bold())?;
    if session.is_open() {
        print_open(explanation, now)?
    } else {
        print_ended(explanation)?
    }
    if !explanation.entries.is_empty() {
        output::line("")?;
    }
    for entry in &explanation.entries {
        output::line(format_args!("{} {}: {}", output::time(entry.at), entry.kind, escape(&entry.message)))?;
    }
    Ok(())
}

fn print_ended(explanation: &Explanation) -> io::Result<()> {
    let at = explanation.session.ended_at.map(|at| format!(" at {} UTC", output::time(at))).unwrap_or_default();
    output::line(format_args!("It ended{at}: {}.", with_meaning(&explanation.verdict)))
}

fn print_open(explanation: &Explanation, now: UtcMs) -> io::Result<()> {
    output::line(answer(explanation, now))?;
    if explanation.paused {
        output::line("The reaper is paused: nothing is reaped until `sexton resume`.".yellow())?;
    }
    if let Some(rule) = &explanation.rule {
        output::line(format_args!("Its limits come from the rule {}.", escape(&format!("{rule:?}"))))?;
    }
    print_machine(explanation)?;
    output::line("")?;
    let rows = explanation.findings.iter().map(|finding| row(finding, now));
    output::table(&["RULE", "KEEPS IT", "FIGURE", "LIMIT", "UNTIL (UTC)"], rows.collect())
}

/// The two answers: what a pass would do now, and when it would do something else if nothing happens.
fn answer(explanation: &Explanation, now: UtcMs) -> String {
    let why = with_meaning(&explanation.verdict);
    if explanation.reaps {
        return format!("The next pass ends it: {why}.");
    }
    let when = match explanation.due_at {
        Some(at) if at > now => {
            format!("If nothing happens, it is reaped at {} UTC, in {}.", output::time(at), spoken(at.since(now)))
        }
        Some(_) => "If nothing happens, the next pass that can tell reaps it.".to_owned(),
        None => "When it would be reaped cannot be told from here.".to_owned(),
    };
    format!("It is kept: {why}. {when}")
}

fn with_meaning(word: &str) -> String {
    match word.parse::<Verdict>() {
        Ok(verdict) => format!("{word}, {}", verdict.meaning()),
        Err(_) => escape(word),
    }
}

fn print_machine(explanation: &Explanation) -> io::Result<()> {
    let runner = match &explanation.runner {
        None => "is not enrolled".to_owned(),
        Some(report) => match &report.why {
            None => format!("is {}", report.state),
            Some(why) => format!("is {}: {}", report.state, escape(why)),
        },
    };
    output::line(format_args!("Runner {} {runner}.", explanation.session.runner_id))?;
    let Some(engine) = &explanation.process else { return Ok(()) };
    let mut said = vec![engine_word(&engine.state)];
    said.extend(engine.state.idle_ms.value().map(|ms| format!("silent for {}", spoken(ms))));
    said.extend(engine.rss_bytes.map(size));
    said.extend(engine.cpu_ms.map(|ms| format!("{} of CPU", spoken(ms))));
    said.extend(engine.pid.map(|pid| format!("pid {pid}")));
    output::line(format_args!("Its engine: {}.", escape(&said.join(", "))))
}

fn row(finding: &Finding, now: UtcMs) -> Vec<Cell> {
    let keeps = if finding.keeps { "yes" } else { "no" };
    let until = finding.until.filter(|until| *until > now).map_or_else(|| "-".to_owned(), output::time);
    vec![
        cell(finding.rule),
        cell(keeps),
        figure(output::duration(finding.value_ms)),
        figure(output::duration(finding.limit_ms)),
        cell(until),
    ]
}
