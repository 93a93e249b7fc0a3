//! Telling what happens in the demonstration as it happens, and checking that all of it did.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::cli::demo::stage::{BROKEN, BUILDING, COMING_BACK, FORGOTTEN, ORPHAN, Stage};
use crate::cli::output::{self, escape};
use crate::entry::{Entry, EntryKind};
use crate::report::{PartName, RunnerReport, RunnerState, SweepReport};
use crate::session::Id;
use crate::store::EntryFilter;
use crate::sweep::explain;
use crate::time::UtcMs;
use crate::tools::Tools;
use crate::verdict::Verdict;

/// How often it looks for news.
const LOOK: Duration = Duration::from_millis(200);

/// How long everything may take. A machine that is busy with something else still makes it in half of that.
const PATIENCE: Duration = Duration::from_secs(60);

/// What has to be seen.
const ACTS: [(&str, &str); 6] = [
    (FORGOTTEN, "ended idle"),
    (BUILDING, "kept background_tasks"),
    (BUILDING, "ended idle"),
    (COMING_BACK, "refused refused"),
    (ORPHAN, "ended orphaned"),
    (BROKEN, "kept tracked_unrecognised"),
];

/// The telling of one demonstration.
pub(crate) struct Show {
    tools: Tools,
    names: BTreeMap<Id, &'static str>,
    after: Option<(UtcMs, Id)>,
    seen: BTreeSet<(&'static str, String)>,
}

impl Show {
    pub(crate) fn of(stage: &Stage) -> Self {
        let names = stage.sessions.iter().map(|(name, id)| (id.clone(), *name)).collect();
        Self { tools: stage.tools(), names, after: None, seen: BTreeSet::new() }
    }

    /// Tells what happens until everything was seen, `shutdown`, or a minute is over; returns whether everything was seen.
    pub(crate) async fn run(&mut self, shutdown: CancellationToken) -> anyhow::Result<bool> {
        let end = tokio::time::sleep(PATIENCE);
        tokio::pin!(end);
        while !self.is_complete() {
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = &mut end => break,
                () = tokio::time::sleep(LOOK) => {}
            }
            self.tell_entries().await?;
            self.tell_keeps().await?;
            self.tell_passes().await?;
        }
        Ok(self.is_complete())
    }

    /// Returns the last words.
    pub(crate) fn verdict(&self) -> String {
        let missing: Vec<String> = self.missing().map(|(name, act)| format!("{name}: {act}")).collect();
        match missing.is_empty() {
            true => "All of it happened: idle reaped, background work kept and then reaped, a return refused the stop, an orphan closed, and `null` closed nothing.".to_owned(),
            false => format!("Not seen: {}.", missing.join("; ")),
        }
    }

    fn missing(&self) -> impl Iterator<Item = &(&'static str, &'static str)> {
        ACTS.iter().filter(|(name, act)| !self.seen.contains(&(*name, (*act).to_owned())))
    }

    fn is_complete(&self) -> bool {
        self.missing().next().is_none() && self.is_open_still()
    }

    async fn tell_entries(&mut self) -> anyhow::Result<()> {
        let filter = EntryFilter { after: self.after.clone(), ..EntryFilter::default() };
        for entry in self.tools.store.list_timeline(&filter).await? {
            self.after = Some((entry.at, entry.id.clone()));
            self.tell(&entry)?;
        }
        Ok(())
    }

    fn tell(&mut self, entry: &Entry) -> std::io::Result<()> {
        let Some(name) = self.names.get(&entry.session_id).copied() else { return Ok(()) };
        let reason = entry.reason.clone().unwrap_or_default();
        if entry.kind == EntryKind::Ended || entry.kind == EntryKind::Refused {
            self.seen.insert((name, format!("{} {reason}", entry.kind)));
        }
        say(entry.at, name, &entry.message)
    }

    /// Tells once what work keeps a session from being reaped.
    async fn tell_keeps(&mut self) -> anyhow::Result<()> {
        let Some(id) = self.names.iter().find_map(|(id, name)| (*name == BUILDING).then_some(id.clone())) else {
            return Ok(());
        };
        let Some(told) = explain(&self.tools, &id).await? else { return Ok(()) };
        let word = told.verdict.as_str();
        if told.session.is_open() && !told.reaps && self.seen.insert((BUILDING, format!("kept {word}"))) {
            let meaning = word.parse::<Verdict>().map_or_else(|_| word.to_owned(), |word| word.meaning().to_owned());
            say(self.tools.clock.now(), BUILDING, &format!("Kept: {meaning}."))?;
        }
        Ok(())
    }

    /// Tells once that a pass met the runner that answers `null`, and closed none of its rows.
    async fn tell_passes(&mut self) -> anyhow::Result<()> {
        let sweeps = self.tools.store.list_sweeps(1).await?;
        let Some(report) = sweeps.into_iter().next().and_then(|sweep| sweep.report) else { return Ok(()) };
        let report: SweepReport = serde_json::from_value(report)?;
        let lost = |runner: &&RunnerReport| runner.state == RunnerState::Unrecognised;
        let kept = report.part(PartName::Orphans).kept.contains_key(&Verdict::TrackedUnrecognised);
        let Some(runner) = report.runners.iter().find(lost).filter(|_| kept && self.is_open_still()) else {
            return Ok(());
        };
        if self.seen.insert((BROKEN, "kept tracked_unrecognised".to_owned())) {
            let why = runner.why.as_deref().unwrap_or("no reason");
            say(
                report.started_at,
                BROKEN,
                &format!("Kept: runner {} answered no tracked set: {why}.", runner.runner_id),
            )?;
        }
        Ok(())
    }

    /// Returns whether nothing has told of an end of the session on the runner that answers `null`.
    fn is_open_still(&self) -> bool {
        !self.seen.iter().any(|(name, act)| *name == BROKEN && act.starts_with("ended"))
    }
}

fn say(at: UtcMs, name: &str, message: &str) -> std::io::Result<()> {
    let text = at.to_string();
    let clock = text.get(11..23).unwrap_or(&text);
    output::line(format_args!("{clock}  {name:<14} {}", escape(message)))
}
