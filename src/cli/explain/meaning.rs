//! What each verdict means, as the end of a sentence.

use crate::verdict::Verdict;

/// Says what a verdict means.
pub(crate) fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Idle => "nothing touched it for its idle window",
        Verdict::Stalled => "its turn fell silent, and nothing touched it for its idle window",
        Verdict::AwaitingExpired => "nobody answered its question in time",
        Verdict::Orphaned => "its runner holds no engine for it",
        Verdict::MachineGone => "it is idle and its machine cannot be reached any more",
        Verdict::Stray => "its engine belongs to no open row",
        Verdict::Exited => "the engine left by itself",
        Verdict::StartFailed => "the engine never started",
        Verdict::HostReboot => "its machine was booted again",
        Verdict::EndedByPerson => "a person ended it",
        Verdict::RecentlyActive => "something touched it within its idle window",
        Verdict::DriverClaimed => "somebody claimed to drive it within its idle window",
        Verdict::KeptByRequest => "somebody asked to keep it",
        Verdict::Generating => "a turn is running",
        Verdict::BackgroundTasks => "a background task is running",
        Verdict::AwaitingInput => "its engine waits for a person's answer",
        Verdict::PendingWake => "its engine will wake up by itself",
        Verdict::NewSession => "its engine was started too recently",
        Verdict::NotQuiet => "its row was used too recently",
        Verdict::Tracked => "its runner holds an engine for it",
        Verdict::RunnerUnknown => "another runner, or an older state of it, answers at its address",
        Verdict::RunnerOffline => "its runner did not answer",
        Verdict::TrackedUnrecognised => "what its runner answered is no list of sessions",
        Verdict::Undetermined => "a fact that the decision needs is missing, or contradicts another",
        Verdict::ClockUnsettled => "one of its times lies in the future, or a clock was moved",
        Verdict::Paused => "the reaper is paused",
        Verdict::Limit => "the pass had stopped as many as it may; the next one takes it",
        Verdict::LostRace => "something else changed the row first",
        Verdict::StopFailed => "its runner did not confirm the stop",
        Verdict::Refused => "its runner refused the stop, since the engine is in use",
        Verdict::Stale => "its run stopped sending heartbeats",
    }
}
