//! Who could connect, and could what passes be read on the way?

use crate::cli::doctor::checks::runners::RunnerFacts;
use crate::cli::doctor::finding::{Check, Finding};
use crate::cli::runners::is_open_to_read;

const CHECK: Check = Check("network");

/// What the settings say about where the daemons listen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NetworkFacts {
    /// What is wrong with it, a sentence each without its full stop.
    pub(crate) open: Vec<String>,
    /// Why a certificate cannot be used, a sentence each without its full stop.
    pub(crate) faults: Vec<String>,
}

/// Nothing secret passes through a network where it could be read.
pub(crate) fn check(network: &NetworkFacts, runners: &[RunnerFacts]) -> Vec<Finding> {
    let faults = network.faults.iter().map(|fault| CHECK.problem(format!("{fault}.")));
    let open = network.open.iter().map(|open| CHECK.warning(format!("{open}.")));
    let asked = runners.iter().filter(|runner| is_open_to_read(&runner.url)).map(|runner| {
        let (id, url) = (&runner.id, &runner.url);
        CHECK.warning(format!(
            "Runner {id} is asked at {url}, where its secret passes through the network as it is: use https, or a tunnel."
        ))
    });
    faults.chain(open).chain(asked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::testing::one;
    use crate::cli::doctor::finding::Level;
    use crate::report::RunnerState;

    fn runner(url: &str) -> RunnerFacts {
        RunnerFacts {
            id: "mac".parse().unwrap(),
            url: url.to_owned(),
            state: RunnerState::Live,
            why: None,
            engines: 0,
            health: None,
            secret: None,
        }
    }

    #[test]
    fn a_secret_on_its_way_through_a_network_is_told() {
        let said = check(&NetworkFacts::default(), &[runner("http://10.0.0.7:7118"), runner("https://mac:7118")]);
        let (level, said) = one(said);
        assert!(level == Level::Warning && said.contains("Runner mac is asked at http://10.0.0.7:7118"), "{said}");
        assert!(check(&NetworkFacts::default(), &[runner("http://127.0.0.1:7118")]).is_empty());
    }

    #[test]
    fn an_open_door_is_a_warning_and_a_bad_certificate_a_problem() {
        let network = NetworkFacts { open: vec!["open".to_owned()], faults: vec!["bad".to_owned()] };
        let levels: Vec<Level> = check(&network, &[]).iter().map(|finding| finding.level).collect();
        assert_eq!(levels, [Level::Problem, Level::Warning]);
    }
}
