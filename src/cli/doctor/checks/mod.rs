//! What is judged: pure functions of what was gathered, one file per kind, each with the facts that it needs.

pub(crate) mod disk;
pub(crate) mod engines;
pub(crate) mod logout;
pub(crate) mod network;
pub(crate) mod runners;
pub(crate) mod schedule;
pub(crate) mod settings;
pub(crate) mod store;
pub(crate) mod units;
pub(crate) mod webhooks;

#[cfg(test)]
pub(crate) mod testing {
    //! Reading findings in tests.

    use crate::cli::doctor::finding::{Finding, Level};

    /// Returns the one finding's level and sentence.
    pub(crate) fn one(findings: Vec<Finding>) -> (Level, String) {
        assert_eq!(findings.len(), 1, "{findings:?}");
        let finding = findings.into_iter().next().unwrap();
        assert!(finding.message.ends_with('.'), "one sentence: {}", finding.message);
        (finding.level, finding.message)
    }
}
