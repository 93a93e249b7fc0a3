//! Tests of the layers together: which one wins, and how each says what is wrong with it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::config::{Config, ConfigError, DEFAULTS, Environment, Loaded, Sources, load};
use crate::time::{HOUR, MINUTE, SECOND, Span};

/// A home folder of its own, in which nothing of the real one is seen.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn sources(&self, variables: &[(&str, &str)]) -> Sources {
        let home = [("HOME", self.0.path().to_str().unwrap())];
        let env: Environment = home.iter().chain(variables).copied().collect();
        Sources { env, ..Sources::default() }
    }

    fn load(&self, text: &str) -> Result<Loaded, ConfigError> {
        let file = Some(self.write("sexton.toml", text));
        load(&Sources { file, ..self.sources(&[]) })
    }

    /// Loads a bad file and returns what the person sees, without the folder.
    fn refusal(&self, text: &str) -> String {
        let shown = self.load(text).unwrap_err().to_string();
        shown.replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn variable(variables: &[(&str, &str)]) -> Result<Config, String> {
    load(&Home::new().sources(variables)).map(|loaded| loaded.config).map_err(|error| error.to_string())
}

const XDG: &str = ".config/sexton/config.toml";

#[test]
fn with_nothing_said_the_shipped_file_holds() {
    let loaded = load(&Home::new().sources(&[])).unwrap();
    assert_eq!(loaded, Loaded { config: Config::defaults(), file: None });
    assert_eq!(load(&Sources::default()).unwrap().config, Config::defaults());
}

#[test]
fn a_file_needs_only_what_differs() {
    let config = Home::new().load("[policy]\nidle_after = \"2h\"\n[engines.cat]\ncommand = [\"cat\"]").unwrap().config;
    let mut expected = Config::defaults();
    expected.policy.idle_after = Span(2 * HOUR);
    let engine = toml::from_str("command = [\"cat\"]").unwrap();
    expected.engines.insert("cat".to_owned(), engine);
    assert_eq!(config, expected);
}

#[test]
fn an_engine_of_the_shipped_file_is_overridden_key_by_key() {
    let text = "[engines.claude]\ncommand = [\"/opt/claude\"]\nenv = { A = \"b\" }\n[engines.claude.stop]\nstdin_grace = \"1s\"";
    let engines = Home::new().load(text).unwrap().config.engines;
    let (shipped, changed) = (&Config::defaults().engines["claude"], &engines["claude"]);
    assert_eq!(changed.command, ["/opt/claude"]);
    assert_eq!((changed.adapter, &changed.resume), (shipped.adapter, &shipped.resume));
    assert_eq!(changed.stop.stdin_grace, Some(Span(SECOND)));
    assert_eq!(engines.len(), Config::defaults().engines.len());
}

#[test]
fn a_webhook_says_who_and_where_and_is_refused_at_its_fault() {
    let hook = "[[webhooks]]\nname = \"boss\"\nurl = \"https://boss.example/\"\nsecret_file = \"/s\"\n";
    let hooks = Home::new().load(&format!("{hook}[policy]\nidle_after = \"2h\"")).unwrap().config.webhooks;
    assert_eq!((hooks.len(), hooks[0].owner.as_str(), hooks[0].events.len()), (1, "", 5));
    for (fault, shown) in [
        ("events = [\"finished\"]", "unknown variant `finished`"),
        ("secret = \"s3cret\"", "unknown field `secret`"),
        ("name = \"x\"", "duplicate key"),
    ] {
        let refusal = Home::new().refusal(&format!("{hook}{fault}"));
        assert!(refusal.contains(shown) && refusal.contains("line 5"), "{refusal}");
    }
    let refusal = Home::new().refusal(&format!("{hook}{hook}"));
    assert!(refusal.starts_with("webhooks[1].name is \"boss\""), "{refusal}");
    let by_variable = "[{ name = \"v\", url = \"http://h/\", secret_file = \"/s\", events = [\"ended\"] }]";
    assert_eq!(variable(&[("SEXTON_WEBHOOKS", by_variable)]).unwrap().webhooks[0].name.as_str(), "v");
}

#[test]
fn dotted_inline_and_crlf_files_read_the_same() {
    for text in [
        "policy.advanced.stall_after = \"1h\"",
        "policy = { advanced = { stall_after = \"1h\" } }",
        "\u{feff}[policy.advanced]\r\nstall_after = \"1h\"\r\n",
    ] {
        let config = Home::new().load(text).unwrap().config;
        assert_eq!(config.policy.advanced.stall_after, Span(HOUR), "{text:?}");
        assert_eq!(config.policy.advanced.awaiting_after, Config::defaults().policy.advanced.awaiting_after);
    }
}

#[test]
fn the_shipped_file_and_an_empty_one_are_files_too() {
    let home = Home::new();
    for text in [DEFAULTS, "", "# nothing\n"] {
        assert_eq!(home.load(text).unwrap().config, Config::defaults());
    }
}

#[test]
fn variables_win_over_the_file_over_the_shipped_one() {
    let home = Home::new();
    let file =
        Some(home.write("sexton.toml", "[policy]\nidle_after = \"2h\"\norphan_grace = \"4m\"\nstart_timeout = \"7m\""));
    let env = home.sources(&[("SEXTON_POLICY__IDLE_AFTER", "3h"), ("SEXTON_POLICY__ORPHAN_GRACE", "5m")]).env;
    let policy = load(&Sources { file, env }).unwrap().config.policy;
    assert_eq!((policy.idle_after, policy.orphan_grace), (Span(3 * HOUR), Span(5 * MINUTE)));
    assert_eq!((policy.start_timeout, policy.activity_throttle), (Span(7 * MINUTE), Span(MINUTE)));
}

#[test]
fn the_file_is_named_or_in_the_xdg_folder() {
    let home = Home::new();
    let xdg = home.write(XDG, "owner = \"xdg\"");
    let named = home.write("named.toml", "owner = \"variable\"");
    let flag = home.write("flag.toml", "owner = \"flag\"");
    let owner = |sources: &Sources| load(sources).map(|loaded| (loaded.config.owner, loaded.file)).unwrap();
    assert_eq!(owner(&home.sources(&[])), ("xdg".to_owned(), Some(xdg.clone())));
    assert_eq!(owner(&home.sources(&[("SEXTON_CONFIG", "")])), ("xdg".to_owned(), Some(xdg)));
    let mut sources = home.sources(&[("SEXTON_CONFIG", named.to_str().unwrap())]);
    assert_eq!(owner(&sources), ("variable".to_owned(), Some(named)));
    sources.file = Some(flag.clone());
    assert_eq!(owner(&sources), ("flag".to_owned(), Some(flag)));
}

#[test]
fn a_named_file_must_exist_and_be_text() {
    let home = Home::new();
    let folder = home.0.path().to_owned();
    for (file, why) in [
        (home.path("missing.toml"), "No such file"),
        (folder, "Is a directory"),
        (home.write("latin1.toml", [b'o', 0xe9]), "it is not UTF-8 text"),
    ] {
        let by_variable = home.sources(&[("SEXTON_CONFIG", file.to_str().unwrap())]);
        let by_flag = Sources { file: Some(file.clone()), ..home.sources(&[]) };
        for sources in [by_variable, by_flag] {
            let error = load(&sources).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(file.to_str().unwrap()), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}

#[test]
fn an_unreadable_file_in_the_xdg_folder_is_not_passed_over() {
    let home = Home::new();
    std::fs::create_dir_all(home.path(XDG)).unwrap();
    assert!(load(&home.sources(&[])).unwrap_err().to_string().contains("Is a directory"));
    let no_folder = Home::new();
    no_folder.write(".config", "a file where the folder should be");
    assert_eq!(load(&no_folder.sources(&[])).unwrap().file, None);
}

#[test]
fn an_unknown_key_is_shown_in_its_line_with_the_known_ones() {
    let shown = Home::new().refusal("owner = \"ada\"\n\n[policy]\n  idle_afer = \"6h\"\n");
    let (snippet, message) = shown.rsplit_once('\n').unwrap();
    assert_eq!(snippet, "sexton.toml: line 4, column 3\n  |\n4 |   idle_afer = \"6h\"\n  |   ^^^^^^^^^",);
    assert!(message.starts_with("unknown field `idle_afer`, expected one of `idle_after`, "), "{message}");
}

#[test]
fn rules_are_read_in_their_order_and_printed_so_that_they_read_back() {
    let text = "[[policy.rule]]\nrepo = \"/src/**\"\nidle_after = \"2h\"\n[[policy.rule]]\nname = \"rest\"\n\
                awaiting_after = \"3d\"\n[policy.advanced]\nstall_after = \"1h\"";
    let home = Home::new();
    let config = home.load(text).unwrap().config;
    let names: Vec<&str> = config.policy.rule.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["rule 1", "rest"]);
    let rendered = crate::config::render(&config);
    assert_eq!(home.load(&rendered).unwrap().config, config, "{rendered}");
    let by_variable =
        variable(&[("SEXTON_POLICY__RULE", "[{ engine = \"codex\", idle_after = \"2h\" }]")]).unwrap().policy.rule;
    assert_eq!(by_variable.iter().next().and_then(|rule| rule.idle_after), Some(Span(2 * HOUR)));
}

#[test]
fn faults_are_shown_where_they_are() {
    let home = Home::new();
    for (text, place, why) in [
        ("idle = 1", "line 1, column 1\n", "unknown field `idle`"),
        ("[policy.advanced]\nstall = \"1h\"", "line 2, column 1\n", "unknown field `stall`"),
        ("policy.advanced.stall = \"1h\"", "line 1, column 17\n", "unknown field `stall`"),
        ("[policy]\nidle_after = \"6 parsecs\"", "line 2, column 14\n", "is not a duration such as"),
        ("[policy]\nidle_after = 6", "line 2, column 14\n", "expected a string"),
        ("policy = 3", "line 1, column 10\n", "invalid type: integer `3`, expected a table"),
        ("[limits]\nresponse_bytes = \"8 MiBs\"", "line 2, column 18\n", "is not a size such as"),
        ("[limits]\nstops_at_once = -1", "line 2, column 17\n", "expected u32"),
        ("[server]\nlisten = \"localhost\"", "line 2, column 10\n", "is no address with a port"),
        ("[runner]\nid = \"a b\"", "line 2, column 6\n", "is not an id"),
        ("[log]\nformat = \"xml\"", "line 2, column 10\n", "unknown variant `xml`"),
        ("[engines.x]\nenv = {}", "line 1, column 1\n", "missing field `command`"),
        ("[engines.x]\ncommand = \"cat\"", "line 2, column 11\n", "expected a sequence"),
        ("[engines.x]\ncommand = [\"cat\"]\nenvs = {}", "line 3, column 1\n", "unknown field `envs`"),
        ("[engines.x]\ncommand = [\"cat\"]\nadapter = \"morse\"", "line 3, column 11\n", "unknown variant `morse`"),
        ("[engines.codex.stop]\nstdin = \"1s\"", "line 2, column 1\n", "unknown field `stdin`"),
        ("[[policy.rule]]\nrun_stale_after = \"1h\"", "line 2, column 1\n", "unknown field `run_stale_after`"),
        (
            "[[policy.rule]]\n[[policy.rule]]\nrepo = \"/src/[\"",
            "line 3, column 8\n",
            "\"/src/[\" is no pattern: unclosed",
        ),
        ("[[policy.rule]]\nidle_after = \"soon\"", "line 2, column 14\n", "is not a duration such as"),
        ("owner = \"a\"\nowner = \"b\"", "line 2, column 1\n", "duplicate key"),
        ("owner = ", "line 1, column 9\n", ""),
        ("# é\nöwner = 1", "line 2, column 1\n", ""),
    ] {
        let shown = home.refusal(text);
        assert!(shown.starts_with(&format!("sexton.toml: {place}")), "{text}\n{shown}");
        assert!(shown.contains(why) && shown.contains('^'), "{text}\n{shown}");
    }
}

#[test]
fn variables_are_typed_as_the_default_is() {
    let config = variable(&[
        ("SEXTON_OWNER", "007"),
        ("SEXTON_SAFETY__PAUSED", "true"),
        ("SEXTON_SAFETY__MAX_STOPS_PER_RUNNER", " 5 "),
        ("SEXTON_POLICY__ADVANCED__STALL_AFTER", "90s"),
        ("SEXTON_ENGINES__CODEX__COMMAND", "[\"/opt/codex\", \"app-server\"]"),
    ])
    .unwrap();
    assert_eq!(config.engines["codex"].command, ["/opt/codex", "app-server"]);
    assert_eq!((config.owner.as_str(), config.safety.paused, config.safety.max_stops_per_runner), ("007", true, 5));
    assert_eq!(config.policy.advanced.stall_after, Span(90 * SECOND));
}

#[test]
fn a_bad_variable_is_named() {
    for (name, value, why) in [
        ("SEXTON_ENGINES__CODEX__COMMAND", "codex app-server", "is not a list such as"),
        ("SEXTON_ENGINES__CODEX__ADAPTER", "morse", "unknown variant `morse`"),
        ("SEXTON_POLICY__IDLE_AFTER", "6 parsecs", "is not a duration such as"),
        ("SEXTON_POLICY__IDLE_AFTER", "", "is not a duration such as"),
        ("SEXTON_SAFETY__PAUSED", "yes", "\"yes\" is not true or false"),
        ("SEXTON_SAFETY__MAX_STOPS_PER_RUNNER", "many", "\"many\" is not a whole number"),
        ("SEXTON_SAFETY__MAX_STOPS_PER_RUNNER", "1.5", "\"1.5\" is not a whole number"),
        ("SEXTON_LIMITS__STOPS_AT_ONCE", "-1", "expected u32"),
        ("SEXTON_LOG__FORMAT", "xml", "unknown variant `xml`, expected `text` or `json`"),
    ] {
        let error = variable(&[(name, value)]).unwrap_err();
        assert!(error.starts_with(&format!("{name}: ")) && error.contains(why), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn an_unknown_variable_is_refused_with_the_nearest_one() {
    for (name, nearest) in [
        ("SEXTON_POLICY__IDLE_AFER", "SEXTON_POLICY__IDLE_AFTER"),
        ("SEXTON_IDLE_AFTER", "SEXTON_RUNNER__IDLE_AFTER or SEXTON_POLICY__IDLE_AFTER"),
        ("SEXTON_POLICY_IDLE_AFTER", "SEXTON_POLICY__IDLE_AFTER"),
        ("SEXTON_policy__idle_after", "SEXTON_POLICY__IDLE_AFTER"),
        ("SEXTON_ONWER", "SEXTON_OWNER"),
    ] {
        let error = variable(&[(name, "2h")]).unwrap_err();
        assert_eq!(error, format!("{name}: no setting has this variable; the nearest is {nearest}"));
    }
}

#[test]
fn variables_of_other_kinds_are_no_settings() {
    let names = ["REQUIRE", "SESSION_ID", "RUNNER_ID", "TOKEN", "URL", "FUZZ_CASES", "TEST_KILLS"];
    for name in names.map(|name| format!("SEXTON_{name}")) {
        assert_eq!(variable(&[(&name, "x")]), Ok(Config::defaults()), "{name}");
    }
    assert_eq!(variable(&[("SEXTON_LOG", "debug"), ("SEXTON_TEST_URL", "x"), ("OWNER", "x")]), Ok(Config::defaults()));
}

#[test]
fn contradictions_across_layers_are_refused_by_name() {
    let home = Home::new();
    home.write(XDG, "[policy]\nidle_after = \"1h\"\nactivity_throttle = \"10m\"\n");
    let error = load(&home.sources(&[("SEXTON_POLICY__IDLE_AFTER", "20m")])).unwrap_err();
    assert!(matches!(error, ConfigError::Contradiction(_)));
    let error = error.to_string();
    assert!(error.contains("policy.activity_throttle (10m)") && error.contains("policy.idle_after (20m)"), "{error}");
}

#[test]
fn a_file_in_the_current_folder_is_never_read() {
    // Tests run in the package's folder, where the shipped config.toml lies.
    assert!(Path::new("config.toml").exists());
    assert_eq!(load(&Home::new().sources(&[])).unwrap().file, None);
}
