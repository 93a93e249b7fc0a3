//! `sexton sweep`: one pass now, and what came of it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;

use anyhow::bail;
use comfy_table::Cell;
use owo_colors::OwoColorize;
use tokio::time::timeout;

use crate::cli::Context;
use crate::cli::args::SweepArgs;
use crate::cli::output::{self, Outcome, cell, escape, figure, judged};
use crate::cli::signals;
use crate::report::{Action, PartName, PartReport, RunnerState, SweepReport, Totals, Trigger};
use crate::session::Id;
use crate::sweep::{Request, sweep};
use crate::time::{compact, spoken};
use crate::tools::Tools;

/// Makes one pass and prints its report.
///
/// # Errors
/// When the store fails, or the pass takes longer than `schedule.pass_limit`: it is abandoned then, and the next one
/// finishes what it began.
pub(crate) async fn run(context: &Context, tools: &Tools, args: SweepArgs) -> anyhow::Result<Outcome> {
    let request = Request { trigger: Trigger::Manual, only: args.only, dry_run: args.dry_run };
    if !args.dry_run {
        context.note_limits(&tools.store).await?;
    }
    let limit = context.config.schedule.pass_limit;
    let Ok(swept) = timeout(limit.as_std(), sweep(tools, request, signals::shutdown()?)).await else {
        bail!(
            "the pass took longer than schedule.pass_limit ({}) and was abandoned; the next one finishes what it began",
            compact(limit.0)
        );
    };
    let report = swept?;
    if args.json {
        output::json(&report)?;
    } else {
        print(&report)?;
    }
    Ok(if report.has_errors() { Outcome::Incomplete } else { Outcome::Done })
}

fn print(report: &SweepReport) -> io::Result<()> {
    output::line(headline(report).bold())?;
    if report.paused {
        output::line("The reaper is paused: this pass acted on nothing. `sexton resume` lets it act again.".yellow())?;
    }
    print_runners(report)?;
    output::line("")?;
    let quiet = [PartName::Observe, PartName::Deliveries];
    let parts = report.parts.iter().filter(|(name, part)| !quiet.contains(name) || part.examined > 0);
    let rows = parts.map(|(name, part)| counts(*name, part)).collect();
    output::table(&["PART", "EXAMINED", "REAPED", "KEPT"], rows)?;
    if report.parts.values().filter(|part| part.examined > 0).count() > 1 {
        output::line("Each part counts what it looked at, so a session may stand in several of them.")?;
    }
    for part in report.parts.values() {
        for item in &part.items {
            let what = format!("{} {}: {}", item.action, item.session_id, item.verdict);
            output::line(format_args!("{} — {}", what.bold(), escape(&item.message)))?;
        }
        for error in &part.errors {
            output::line(format_args!("{} {}", format!("failed {}:", error.session_id).red(), escape(&error.message)))?;
        }
    }
    Ok(())
}

fn headline(report: &SweepReport) -> String {
    let Totals { settled, reaped, kept, errors } = report.totals();
    let mut text = match report.dry_run {
        true => would(report),
        false => format!("Reaped {reaped}, kept {kept}"),
    };
    if settled > 0 {
        let _ = write!(text, ", settled {settled} whose engine was gone");
    }
    if errors > 0 {
        let _ = write!(text, ", {errors} could not be handled");
    }
    let _ = write!(text, ", in {}", spoken(report.elapsed_ms));
    text
}

/// Counts each session once, however many parts looked at it: a dry run lists all that it examined.
fn would(report: &SweepReport) -> String {
    let about_sessions = [PartName::Observe, PartName::Idle, PartName::Orphans, PartName::Strays];
    let items = || about_sessions.iter().flat_map(|part| &report.part(*part).items);
    let all: BTreeSet<&Id> = items().map(|item| &item.session_id).collect();
    let ended: BTreeSet<&Id> =
        items().filter(|item| item.action != Action::Kept).map(|item| &item.session_id).collect();
    let plural = if all.len() == 1 { "" } else { "s" };
    let mut text = format!(
        "Dry run: looked at {} session{plural}, would end {}, keep {}",
        all.len(),
        ended.len(),
        all.len() - ended.len()
    );
    let stale = report.part(PartName::Runs).reaped;
    if stale > 0 {
        let _ = write!(text, ", mark {stale} stale run{}", if stale == 1 { "" } else { "s" });
    }
    text
}

fn print_runners(report: &SweepReport) -> io::Result<()> {
    if report.runners.is_empty() {
        return output::line("No runner is enrolled yet; `sexton up` starts one, `sexton runners add` enrols one.");
    }
    let rows = report.runners.iter().map(|runner| {
        let why = runner.why.as_deref().unwrap_or_default();
        vec![cell(&runner.runner_id), judged(runner.state, runner.state == RunnerState::Live), cell(why)]
    });
    output::table(&["RUNNER", "STATE", "WHY"], rows.collect())
}

fn counts(name: PartName, part: &PartReport) -> Vec<Cell> {
    let kept: Vec<String> = part.kept.iter().map(|(verdict, count)| format!("{verdict} {count}")).collect();
    let kept = if kept.is_empty() { "-".to_owned() } else { kept.join(", ") };
    vec![cell(name), figure(part.examined), figure(part.reaped), cell(kept)]
}
