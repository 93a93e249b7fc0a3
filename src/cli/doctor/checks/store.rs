//! Can the store be used, and whose is what it holds?

use crate::cli::doctor::finding::{Check, Finding};
use crate::store::Queue;
use crate::time::UtcMs;

const CHECK: Check = Check("store");

/// How the store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreFacts {
    /// There is none yet.
    Missing,
    /// It cannot be used, as this sentence says.
    Unusable(String),
    /// It was opened.
    Opened(Opened),
}

/// What an opened store says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Opened {
    /// Where it is.
    pub(crate) place: String,
    /// Whose tokens and open sessions it holds.
    pub(crate) owners: Vec<String>,
    /// How many open sessions it holds.
    pub(crate) open_sessions: usize,
    /// Who paused the reaper, since when and why.
    pub(crate) paused: Option<String>,
    /// When the last pass began.
    pub(crate) last_pass: Option<UtcMs>,
    /// Whether one of the last passes was the schedule's.
    pub(crate) scheduled: bool,
    /// How the queues of webhooks stand.
    pub(crate) queues: Vec<Queue>,
}

impl StoreFacts {
    /// Returns what it says, if it could be opened.
    pub(crate) fn opened(&self) -> Option<&Opened> {
        match self {
            Self::Opened(opened) => Some(opened),
            Self::Missing | Self::Unusable(_) => None,
        }
    }
}

/// The store opens.
pub(crate) fn check(store: &StoreFacts, owner: &str) -> Vec<Finding> {
    let opened = match store {
        StoreFacts::Missing => {
            return vec![CHECK.ok("There is no store yet; the first command that needs one makes it.")];
        }
        StoreFacts::Unusable(why) => {
            return vec![
                CHECK.problem(format!("{why}; nothing is reaped, nor anything else done, until it can be used.")),
            ];
        }
        StoreFacts::Opened(opened) => opened,
    };
    let whose = match opened.owners.as_slice() {
        [] => format!("{owner}'s"),
        [only] => format!("{only}'s"),
        many => format!("those of {} owners ({})", many.len(), many.join(", ")),
    };
    vec![CHECK.ok(format!(
        "The store {} can be used; its sessions are {whose}, {} of them open.",
        opened.place, opened.open_sessions
    ))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::testing::one;
    use crate::cli::doctor::finding::Level;

    #[test]
    fn a_store_that_cannot_be_used_is_a_problem_and_none_yet_is_not() {
        assert_eq!(one(check(&StoreFacts::Missing, "ann")).0, Level::Ok);
        let (level, said) = one(check(&StoreFacts::Unusable("the store /s.db is damaged".to_owned()), "ann"));
        assert_eq!(level, Level::Problem);
        assert_eq!(
            said,
            "the store /s.db is damaged; nothing is reaped, nor anything else done, until it can be used."
        );
    }

    #[test]
    fn whose_the_sessions_are_is_told() {
        let said = |owners: &[&str]| {
            let owners = owners.iter().map(|owner| (*owner).to_owned()).collect();
            let store = Opened { place: "/s.db".to_owned(), owners, open_sessions: 3, ..Opened::default() };
            one(check(&StoreFacts::Opened(store), "ann"))
        };
        let ok = |whose: &str| {
            (Level::Ok, format!("The store /s.db can be used; its sessions are {whose}, 3 of them open."))
        };
        assert_eq!(said(&[]), ok("ann's"));
        assert_eq!(said(&["bob"]), ok("bob's"));
        assert_eq!(said(&["ann", "bob"]), ok("those of 2 owners (ann, bob)"));
    }
}
