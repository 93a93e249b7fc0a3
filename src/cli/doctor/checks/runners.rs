//! Does each enrolled runner answer as it should, and what does it say about itself?

use crate::cli::doctor::finding::{Check, Finding, counted};
use crate::protocol::Health;
use crate::report::RunnerState;
use crate::session::Id;

const CHECK: Check = Check("runners");

/// One enrolled runner.
#[derive(Debug, Clone)]
pub(crate) struct RunnerFacts {
    /// The name it is enrolled under.
    pub(crate) id: Id,
    /// Its base URL.
    pub(crate) url: String,
    /// How it answered the question for its tracked set.
    pub(crate) state: RunnerState,
    /// Why, when it is not live.
    pub(crate) why: Option<String>,
    /// How many engines it says it holds.
    pub(crate) engines: usize,
    /// What it says about itself; none of one that someone else wrote, or that did not answer.
    pub(crate) health: Option<Health>,
    /// What is wrong with the file of its secret, as the rest of a sentence.
    pub(crate) secret: Option<String>,
}

/// Every runner answers, is who it should be, and has nothing to complain about.
pub(crate) fn check(runners: &[RunnerFacts], store_is_there: bool) -> Vec<Finding> {
    if runners.is_empty() && store_is_there {
        return vec![CHECK.warning(
            "No runner is enrolled, so no engine can be started or stopped; `sexton up` starts one, `sexton runners add ID URL` enrols one.",
        )];
    }
    runners.iter().flat_map(runner).collect()
}

fn runner(runner: &RunnerFacts) -> Vec<Finding> {
    let mut found = vec![answer(runner)];
    found.extend(
        runner.secret.as_ref().map(|fault| CHECK.problem(format!("The secret of runner {} {fault}.", runner.id))),
    );
    let Some(health) = &runner.health else { return found };
    let says = |sentence: &String| format!("Runner {} says: {}", runner.id, sentence.trim_end_matches('.'));
    found.extend(health.damaged.iter().map(|one| {
        CHECK.warning(format!("{}; its sessions are kept until you have looked at it and moved it away.", says(one)))
    }));
    found.extend(health.stuck.iter().map(|one| {
        CHECK.problem(format!(
            "{}; see with `ps` what it waits for, most often a disk or a network that hangs.",
            says(one)
        ))
    }));
    found.extend(health.troubles.iter().map(|one| CHECK.problem(format!("{}.", says(one)))));
    found
}

fn answer(runner: &RunnerFacts) -> Finding {
    let RunnerFacts { id, url, .. } = runner;
    let engines = counted(runner.engines, "engine");
    let why = runner.why.as_deref().unwrap_or("it did not say why").trim_end_matches('.');
    let ready = runner.health.as_ref().is_none_or(|health| health.origin.ready);
    match runner.state {
        RunnerState::Live if runner.health.is_none() => CHECK.ok(format!(
            "Runner {id} answers at {url} and holds {engines}; it is one that knows no conditions, so a stop can lose a race of milliseconds."
        )),
        RunnerState::Live => CHECK.ok(format!("Runner {id} answers at {url} and holds {engines}.")),
        RunnerState::Unrecognised if !ready => CHECK.warning(format!(
            "Runner {id} does not know its engines again yet, so nothing of it is reaped; if that lasts for more than a minute, its log says why."
        )),
        RunnerState::Unrecognised => CHECK.problem(format!(
            "What answers at {url} is not recognised as runner {id} ({why}), so its orphans are kept: see what listens there."
        )),
        RunnerState::Offline => CHECK.problem(format!(
            "Runner {id} does not answer: {why}; start it with `sexton runner`, or, if its machine is gone for good, `sexton runners remove {id}`."
        )),
        RunnerState::Unauthorised => CHECK.problem(format!(
            "Runner {id} cannot be asked: {why}; both sides must have the same secret, see `sexton runners add {id} {url} --token-file FILE`."
        )),
        RunnerState::Unknown => CHECK.problem(format!(
            "Runner {id} is not the one that was known ({why}), so its sessions are kept; if that is meant, `sexton runners reset {id}` accepts what answers."
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::doctor::checks::testing::one;
    use crate::cli::doctor::finding::Level;

    fn facts(state: RunnerState, change: &Value) -> RunnerFacts {
        let mut health =
            json!({"protocol": 1, "runner_id": "mac", "epoch": 1, "ready": true, "engines": [], "sessions": 2});
        health.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        RunnerFacts {
            id: "mac".parse().unwrap(),
            url: "http://h:1".to_owned(),
            state,
            why: (state != RunnerState::Live).then(|| "connection refused".to_owned()),
            engines: 2,
            health: Some(serde_json::from_value(health).unwrap()),
            secret: None,
        }
    }

    #[test]
    fn each_way_of_not_answering_says_what_to_do() {
        let said = |state| one(check(&[facts(state, &json!({}))], true));
        assert_eq!(
            said(RunnerState::Live),
            (Level::Ok, "Runner mac answers at http://h:1 and holds 2 engines.".to_owned())
        );
        for (state, word) in [
            (RunnerState::Offline, "connection refused; start it with `sexton runner`"),
            (RunnerState::Unauthorised, "the same secret"),
            (RunnerState::Unknown, "`sexton runners reset mac`"),
            (RunnerState::Unrecognised, "see what listens there"),
        ] {
            let (level, said) = said(state);
            assert!(level == Level::Problem && said.contains(word), "{said}");
        }
        let (level, said) = one(check(&[facts(RunnerState::Unrecognised, &json!({"ready": false}))], true));
        assert!(level == Level::Warning && said.contains("does not know its engines again yet"), "{said}");
        let foreign = RunnerFacts { health: None, ..facts(RunnerState::Live, &json!({})) };
        assert!(one(check(&[foreign], true)).1.contains("knows no conditions"));
    }

    #[test]
    fn what_a_runner_says_about_itself_is_passed_on() {
        let said =
            json!({"damaged": ["a is damaged"], "stuck": ["pid 7 cannot be killed"], "troubles": ["the disk is full"]});
        let found = check(&[facts(RunnerState::Live, &said)], true);
        let levels: Vec<Level> = found.iter().map(|finding| finding.level).collect();
        assert_eq!(levels, [Level::Ok, Level::Warning, Level::Problem, Level::Problem]);
        assert_eq!(found[3].message, "Runner mac says: the disk is full.");
    }

    #[test]
    fn a_secret_that_anyone_may_read_is_a_problem() {
        let secret = Some("lies in /t, which others may read; `chmod 600 /t`".to_owned());
        let found = check(&[RunnerFacts { secret, ..facts(RunnerState::Live, &json!({})) }], true);
        assert_eq!(found[1].level, Level::Problem);
        assert_eq!(found[1].message, "The secret of runner mac lies in /t, which others may read; `chmod 600 /t`.");
    }

    #[test]
    fn nobody_enrolled_is_told() {
        assert_eq!(one(check(&[], true)).0, Level::Warning);
        assert!(check(&[], false).is_empty());
    }
}
