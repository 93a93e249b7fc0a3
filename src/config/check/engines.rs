//! Refuses engines that could not be started, or could not be stopped in the time that is waited for it.

use crate::config::check::timeouts::ladder_fault;
use crate::config::{Config, EngineConfig, StopConfig};
use crate::session::Id;

/// Every engine has a name that fits into ids and paths, a command that can be run, and a stop that comes to its end.
pub(super) fn engines(config: &Config, faults: &mut Vec<String>) {
    for (name, engine) in &config.engines {
        let fault = engine_fault(name, engine).map(str::to_owned).or_else(|| pass_env_fault(&engine.pass_env));
        faults.extend(fault.map(|fault| format!("engines.{name}: {fault}")));
        stop(config, name, engine.stop, faults);
    }
}

fn engine_fault(name: &str, engine: &EngineConfig) -> Option<&'static str> {
    if !Id::fits(name) {
        return Some("the name must be 1 to 64 letters, digits, \"_\" or \"-\"");
    }
    if engine.command.first().is_none_or(|program| program.trim().is_empty()) {
        return Some("command must name a program, such as [\"claude\", \"-p\"]");
    }
    let values = engine.env.values().chain(&engine.command).chain(&engine.resume);
    if values.chain(engine.env.keys()).any(|text| text.contains('\0')) {
        return Some("a NUL character cannot be given to a program");
    }
    let bad = |variable: &String| variable.is_empty() || variable.contains('=');
    engine.env.keys().any(bad).then_some("env has a name that no variable can have")
}

/// A pattern is a name, or the beginning of one with `*` behind it. Everything at once would hand over secrets that
/// nobody thought of.
fn pass_env_fault(patterns: &[String]) -> Option<String> {
    let fits = |pattern: &str| {
        let name = pattern.strip_suffix('*').unwrap_or(pattern);
        !name.is_empty() && !name.contains(['=', '\0', '*'])
    };
    let bad = patterns.iter().find(|pattern| !fits(pattern))?;
    Some(format!("pass_env has {bad:?}, which is neither a variable's name nor a beginning such as \"PREFIX_*\""))
}

/// The engine's own steps of a stop end, and within the time that is waited for them.
fn stop(config: &Config, name: &str, own: StopConfig, faults: &mut Vec<String>) {
    if own.is_empty() {
        return;
    }
    if own.kill_limit.is_some_and(|limit| limit.0 == 0) {
        faults.push(format!("engines.{name}.stop.kill_limit is 0: it must be more than nothing"));
    }
    let key = format!("the stop ladder of engines.{name}");
    faults.extend(ladder_fault(config, own, &key));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check;
    use crate::time::{SECOND, Span};

    fn faults_of(name: &str, engine: EngineConfig) -> Vec<String> {
        let mut config = Config::defaults();
        config.engines.insert(name.to_owned(), engine);
        check(&config).err().map_or_else(Vec::new, |found| found.0)
    }

    fn engine(command: &[&str], variable: Option<&str>) -> EngineConfig {
        let mut engine: EngineConfig = toml::from_str("command = []").unwrap();
        engine.command = command.iter().map(|word| (*word).to_owned()).collect();
        engine.env = variable.map(|name| (name.to_owned(), "x".to_owned())).into_iter().collect();
        engine
    }

    fn cat() -> EngineConfig {
        engine(&["cat"], None)
    }

    #[test]
    fn engines_need_a_name_and_a_program() {
        for (name, bad) in [
            ("a b", cat()),
            ("", cat()),
            ("cat", engine(&[], None)),
            ("cat", engine(&[" "], None)),
            ("cat", engine(&["cat", "\0"], None)),
            ("cat", engine(&["cat"], Some("A=B"))),
            ("cat", engine(&["cat"], Some(""))),
        ] {
            let found = faults_of(name, bad.clone());
            assert_eq!(found.len(), 1, "{name} {bad:?}: {found:?}");
            assert!(found[0].starts_with(&format!("engines.{name}: ")), "{found:?}");
        }
        assert!(faults_of("cat", engine(&["cat"], Some("A"))).is_empty());
    }

    #[test]
    fn variables_are_passed_by_name_or_beginning_and_never_all_at_once() {
        let passing = |pattern: &str| EngineConfig { pass_env: vec!["OK".to_owned(), pattern.to_owned()], ..cat() };
        for good in ["ANTHROPIC_API_KEY", "AWS_*", "no_proxy"] {
            assert!(faults_of("cat", passing(good)).is_empty(), "{good}");
        }
        for bad in ["", "*", "A=B", "*_KEY", "A**", "A\0"] {
            let found = faults_of("cat", passing(bad));
            assert!(found.len() == 1 && found[0].contains(&format!("pass_env has {bad:?}")), "{bad}: {found:?}");
        }
    }

    #[test]
    fn an_engines_own_stop_fits_into_the_time_that_is_waited_for_it() {
        let stopping = |stop| EngineConfig { stop, ..cat() };
        let slow = StopConfig { stdin_grace: Some(Span(32 * SECOND)), ..StopConfig::default() };
        let found = faults_of("cat", stopping(slow));
        assert!(found.len() == 1 && found[0].starts_with("limits.end_timeout (45s) must be longer"), "{found:?}");
        assert!(found[0].contains("the stop ladder of engines.cat (46s)"), "{found:?}");
        let endless = StopConfig { kill_limit: Some(Span(0)), ..StopConfig::default() };
        assert_eq!(faults_of("cat", stopping(endless)).len(), 1);
        let quick = StopConfig { stdin_grace: Some(Span(0)), kill_limit: Some(Span(1)), ..StopConfig::default() };
        assert!(faults_of("cat", stopping(quick)).is_empty());
    }
}
