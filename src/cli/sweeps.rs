//! `sexton sweeps`: past passes.

use comfy_table::Cell;
use serde_json::{Value, json};

use crate::cli::args::ListArgs;
use crate::cli::output::{self, Outcome, cell, figure};
use crate::report::SweepReport;
use crate::store::Sweep;
use crate::time::spoken;
use crate::tools::Tools;

/// Lists past passes, the newest first.
///
/// # Errors
/// When the store fails.
pub(crate) async fn run(tools: &Tools, args: ListArgs) -> anyhow::Result<Outcome> {
    let sweeps = tools.store.list_sweeps(args.limit).await?;
    if args.json {
        output::json(&json!({ "items": sweeps, "next": Value::Null }))?;
    } else if sweeps.is_empty() {
        output::line("There was no pass yet; `sexton sweep` makes one.")?;
    } else {
        let header = ["STARTED (UTC)", "SWEEP", "TRIGGER", "TOOK", "SETTLED", "REAPED", "KEPT", "ERRORS"];
        output::table(&header, sweeps.iter().map(row).collect())?;
    }
    Ok(Outcome::Done)
}

fn row(sweep: &Sweep) -> Vec<Cell> {
    let mut row = vec![cell(output::time(sweep.started_at)), cell(&sweep.id), cell(&sweep.trigger)];
    let report = sweep.report.clone().and_then(|report| serde_json::from_value::<SweepReport>(report).ok());
    let Some(report) = report else {
        let took = if sweep.finished_at.is_some() { "-" } else { "unfinished" };
        row.extend([figure(took), figure("-"), figure("-"), figure("-"), figure("-")]);
        return row;
    };
    let totals = report.totals();
    let figures = [totals.settled, totals.reaped, totals.kept, totals.errors].map(figure);
    row.push(figure(spoken(report.elapsed_ms)));
    row.extend(figures);
    row
}
