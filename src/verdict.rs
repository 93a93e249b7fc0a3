//! The words in which Sexton says what it decided and why: report, timeline, metrics label and `explain` share them.

use crate::words::words;

words! {
    /// What one decision came to.
    Verdict {
        /// Reap: nothing touched it for its idle window.
        Idle = "idle",
        /// Reap: a turn says generating but emitted nothing, and the idle window is over.
        Stalled = "stalled",
        /// Reap: nobody answered the engine's question for `awaiting_after`.
        AwaitingExpired = "awaiting_expired",
        /// Reap: an open row whose live runner does not track it.
        Orphaned = "orphaned",
        /// Reap: idle, and the machine that held the engine cannot be reached any more.
        MachineGone = "machine_gone",
        /// Reap: an engine whose row is ended, elsewhere, or of another generation.
        Stray = "stray",
        /// Closed: the engine left by itself.
        Exited = "exited",
        /// Closed: the engine never started.
        StartFailed = "start_failed",
        /// Closed: the engine's machine was booted again.
        HostReboot = "host_reboot",
        /// Closed: a person ended it.
        EndedByPerson = "ended_by_person",
        /// Keep: something touched it within the window.
        RecentlyActive = "recently_active",
        /// Keep: somebody claimed the right to drive it within the window.
        DriverClaimed = "driver_claimed",
        /// Keep: somebody asked to keep it, and that has not lapsed.
        KeptByRequest = "kept_by_request",
        /// Keep: a turn is running.
        Generating = "generating",
        /// Keep: a background task is running.
        BackgroundTasks = "background_tasks",
        /// Keep: the engine waits for a person's answer.
        AwaitingInput = "awaiting_input",
        /// Keep: the engine will wake up by itself.
        PendingWake = "pending_wake",
        /// Keep: the engine was started too recently to be called an orphan.
        NewSession = "new_session",
        /// Keep: the row was used too recently to be called an orphan.
        NotQuiet = "not_quiet",
        /// Keep: its runner holds an engine for it.
        Tracked = "tracked",
        /// Keep: another runner, or an older state of this one, answers at its URL.
        RunnerUnknown = "runner_unknown",
        /// Keep: its runner did not answer.
        RunnerOffline = "runner_offline",
        /// Keep: its runner answered something that is no tracked set.
        TrackedUnrecognised = "tracked_unrecognised",
        /// Keep: a fact needed for the decision is missing or contradicts another.
        Undetermined = "undetermined",
        /// Keep: a clock disagrees with another, or a stored time lies in the future.
        ClockUnsettled = "clock_unsettled",
        /// Keep: the reaper is paused.
        Paused = "paused",
        /// Keep: the pass reached its limit of stops; the next pass takes it.
        Limit = "limit",
        /// Keep: something else changed or closed the row first.
        LostRace = "lost_race",
        /// Keep: the runner was asked to stop the engine and did not confirm that it did.
        StopFailed = "stop_failed",
        /// Keep: the runner refused to stop the engine because it is in use.
        Refused = "refused",
        /// A run without heartbeat was marked stale; its session stays.
        Stale = "stale",
        /// A webhook took an event.
        Delivered = "delivered",
        /// A webhook did not take an event; it is tried again.
        Postponed = "postponed",
        /// A webhook did not take an event for too long.
        GivenUp = "given_up",
    }
}

impl Verdict {
    /// Returns whether the verdict means that the session is, or was, ended. Written out, so that a new word has to say
    /// which it is: a word that ends by mistake would reap.
    #[must_use]
    pub fn ends(self) -> bool {
        match self {
            Self::Idle
            | Self::Stalled
            | Self::AwaitingExpired
            | Self::Orphaned
            | Self::MachineGone
            | Self::Stray
            | Self::Exited
            | Self::StartFailed
            | Self::HostReboot
            | Self::EndedByPerson => true,
            Self::RecentlyActive
            | Self::DriverClaimed
            | Self::KeptByRequest
            | Self::Generating
            | Self::BackgroundTasks
            | Self::AwaitingInput
            | Self::PendingWake
            | Self::NewSession
            | Self::NotQuiet
            | Self::Tracked
            | Self::RunnerUnknown
            | Self::RunnerOffline
            | Self::TrackedUnrecognised
            | Self::Undetermined
            | Self::ClockUnsettled
            | Self::Paused
            | Self::Limit
            | Self::LostRace
            | Self::StopFailed
            | Self::Refused
            | Self::Stale
            | Self::Delivered
            | Self::Postponed
            | Self::GivenUp => false,
        }
    }

    /// Says what the verdict means, as the end of a sentence.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Idle => "nothing touched it for its idle window",
            Self::Stalled => "its turn fell silent, and nothing touched it for its idle window",
            Self::AwaitingExpired => "nobody answered its question in time",
            Self::Orphaned => "its runner holds no engine for it",
            Self::MachineGone => "it is idle and its machine cannot be reached any more",
            Self::Stray => "its engine belongs to no open row",
            Self::Exited => "the engine left by itself",
            Self::StartFailed => "the engine never started",
            Self::HostReboot => "its machine was booted again",
            Self::EndedByPerson => "somebody asked for its end",
            Self::RecentlyActive => "something touched it within its idle window",
            Self::DriverClaimed => "somebody claimed to drive it within its idle window",
            Self::KeptByRequest => "somebody asked to keep it",
            Self::Generating => "a turn is running",
            Self::BackgroundTasks => "a background task is running",
            Self::AwaitingInput => "its engine waits for a person's answer",
            Self::PendingWake => "its engine will wake up by itself",
            Self::NewSession => "its engine was started too recently",
            Self::NotQuiet => "its row was used too recently",
            Self::Tracked => "its runner holds an engine for it",
            Self::RunnerUnknown => "another runner, or an older state of it, answers at its address",
            Self::RunnerOffline => "its runner did not answer",
            Self::TrackedUnrecognised => "what its runner answered is no list of sessions",
            Self::Undetermined => "a fact that the decision needs is missing, or contradicts another",
            Self::ClockUnsettled => "one of its times lies in the future, or a clock was moved",
            Self::Paused => "the reaper is paused",
            Self::Limit => "the pass had stopped as many as it may; the next one takes it",
            Self::LostRace => "something else changed the row first",
            Self::StopFailed => "its runner did not confirm the stop",
            Self::Refused => "its runner refused the stop, since the engine is in use",
            Self::Stale => "its run stopped sending heartbeats",
            Self::Delivered => "its webhook took the event",
            Self::Postponed => "its webhook did not take the event yet",
            Self::GivenUp => "its webhook did not take the event for too long",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict;

    #[test]
    fn words_read_back_and_know_whether_they_end() {
        for word in Verdict::ALL {
            assert_eq!(word.as_str().parse(), Ok(*word));
        }
        assert!(Verdict::Idle.ends() && Verdict::EndedByPerson.ends());
        assert!(!Verdict::RecentlyActive.ends() && !Verdict::Refused.ends() && !Verdict::Stale.ends());
    }
}
