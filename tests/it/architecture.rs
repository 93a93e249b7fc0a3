//! The house rules that a compiler does not check: who may use whom, who may read a clock, who may do I/O.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Which modules each module may use, apart from itself. Dependencies point down only.
const MAY_USE: &[(&str, &[&str])] = &[
    // Plain data and pure functions: no async, no I/O, no clock.
    ("words", &[]),
    ("time", &[]),
    ("cron", &["time"]),
    ("verdict", &["words"]),
    ("session", &["time", "words", "verdict"]),
    ("entry", &["session", "time", "words"]),
    ("import", &["session", "time"]),
    ("report", &["session", "time", "verdict", "words"]),
    ("protocol", &["session", "time", "words"]),
    // The settings are plain data too, but for the one file that reads them.
    ("network", &[]),
    ("config", &["cron", "entry", "network", "protocol", "session", "time"]),
    ("policy", &["config", "protocol", "session", "time", "verdict"]),
    ("timeline", &["entry", "policy", "protocol", "session", "time", "verdict"]),
    // What touches the world. Rows and runners know neither each other nor a rule.
    ("clock", &["time"]),
    ("memory", &[]),
    ("telemetry", &["config"]),
    ("store", &["entry", "protocol", "session", "time", "verdict", "words"]),
    ("runner_client", &["protocol", "session", "time", "words"]),
    ("webhook", &["time"]),
    // The daemon that owns engines shares only the wire, the rule about engines and plain data with the rest.
    ("runner", &["clock", "memory", "network", "policy", "protocol", "session", "time", "verdict", "words"]),
    // Where rows, runners and rules meet.
    ("metrics", &["report", "time"]),
    ("tools", &["clock", "config", "metrics", "runner_client", "session", "store"]),
    ("activity", &["protocol", "runner_client", "session", "store", "time", "tools"]),
    ("connectivity", &["protocol", "report", "runner_client", "session", "store", "time", "tools", "words"]),
    ("sweep", SWEEP),
    ("token", &["session", "store", "time", "words"]),
    ("verbs", VERBS),
    ("attach", ATTACH),
    ("schedule", &["clock", "config", "cron", "telemetry", "time", "words"]),
    ("worker", WORKER),
    ("api", API),
];

const SWEEP: &[&str] = &[
    "clock",
    "config",
    "connectivity",
    "entry",
    "policy",
    "protocol",
    "report",
    "runner_client",
    "session",
    "store",
    "time",
    "timeline",
    "tools",
    "verdict",
    "webhook",
];

const VERBS: &[&str] = &[
    "activity",
    "entry",
    "policy",
    "protocol",
    "runner_client",
    "session",
    "store",
    "time",
    "timeline",
    "token",
    "tools",
    "verdict",
];

const ATTACH: &[&str] = &["clock", "protocol", "runner_client", "session", "time", "tools", "verbs", "verdict"];

const WORKER: &[&str] = &["activity", "report", "schedule", "session", "store", "sweep", "telemetry", "time", "tools"];

const API: &[&str] = &[
    "activity",
    "attach",
    "config",
    "connectivity",
    "entry",
    "network",
    "protocol",
    "report",
    "runner_client",
    "schedule",
    "session",
    "store",
    "sweep",
    "time",
    "token",
    "tools",
    "verbs",
    "words",
    "worker",
];

/// Modules that know no async, no I/O and no clock.
const PURE: &[&str] =
    &["words", "time", "cron", "verdict", "session", "entry", "import", "report", "protocol", "policy", "timeline"];

/// What a pure module may not mention.
const IMPURE: &[&str] =
    &["async fn", "tokio::", "sqlx", "reqwest", "axum", "std::fs", "std::net", "std::env", "crate::clock"];

/// What reads a clock.
const CLOCKS: &[&str] =
    &["SystemTime::now", "Instant::now", "Timestamp::now", "Utc::now", "Local::now", "clock_gettime"];

/// One source file of the library.
struct Source {
    module: String,
    path: PathBuf,
    /// Its lines with their numbers, without comments and without what stands behind `#[cfg(test)]`.
    lines: Vec<(usize, String)>,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    collect(&root, &mut found);
    found.retain(|path| !path.ends_with("tests.rs") && path.extension().is_some_and(|end| end == "rs"));
    found.into_iter().map(|path| read(&root, &path)).collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, found) } else { found.push(path) }
    }
}

fn read(root: &Path, path: &Path) -> Source {
    let relative = path.strip_prefix(root).unwrap();
    let first = relative.components().next().unwrap().as_os_str().to_str().unwrap();
    let module = first.trim_end_matches(".rs").to_owned();
    let text = fs::read_to_string(path).unwrap();
    let code =
        text.lines().take_while(|line| line.trim() != "#[cfg(test)]" || text.contains("#[cfg(test)]\nmod tests;"));
    let lines = code
        .enumerate()
        .map(|(at, line)| (at + 1, line.to_owned()))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .collect();
    Source { module, path: relative.to_owned(), lines }
}

#[test]
fn dependencies_point_down_only() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut faults = Vec::new();
    for source in sources() {
        let Some(may_use) = allowed.get(source.module.as_str()) else {
            // The command line, the map and the thin programs stand above everything.
            if !["bin", "cli", "lib", "main"].contains(&source.module.as_str()) {
                faults.push(format!("src/{}: say in this test what {} may use", source.path.display(), source.module));
            }
            continue;
        };
        for (number, line) in &source.lines {
            for used in line.split("crate::").skip(1) {
                let name: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if name != source.module && !name.is_empty() && !may_use.contains(&name.as_str()) {
                    faults.push(format!(
                        "src/{}:{number}: {} may not use crate::{name}",
                        source.path.display(),
                        source.module
                    ));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_table_has_no_circle() {
    for (at, (module, may_use)) in MAY_USE.iter().enumerate() {
        for used in *may_use {
            let place = MAY_USE.iter().position(|(name, _)| name == used);
            assert!(place.is_some_and(|place| place < at), "{module} may use {used}, which must stand above it");
        }
    }
}

#[test]
fn one_file_reads_clocks() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| source.module != "clock") {
        for (number, line) in &source.lines {
            for clock in CLOCKS.iter().filter(|clock| line.contains(**clock)) {
                faults.push(format!("src/{}:{number}: {clock} belongs in clock.rs", source.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn one_file_holds_unsafe_code() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| source.module != "memory") {
        for (number, _) in source.lines.iter().filter(|(_, line)| line.contains("unsafe")) {
            faults.push(format!("src/{}:{number}: unsafe code belongs in memory.rs", source.path.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn pure_modules_know_no_async_no_io_and_no_clock() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| PURE.contains(&source.module.as_str())) {
        for (number, line) in &source.lines {
            for word in IMPURE.iter().filter(|word| line.contains(**word)) {
                faults.push(format!(
                    "src/{}:{number}: {} is pure and mentions {word}",
                    source.path.display(),
                    source.module
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn paths_in_the_code_go_through_the_root() {
    let mut faults = Vec::new();
    for source in sources() {
        for (number, line) in &source.lines {
            if line.contains("super::super") {
                faults.push(format!("src/{}:{number}: write crate::… instead of super::super", source.path.display()));
            }
            if line.trim_start().starts_with("use crate::{") {
                faults.push(format!(
                    "src/{}:{number}: one use crate::… path per line, so that this test sees it",
                    source.path.display()
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What asks others over HTTP: the client of runners, webhooks, the bridge to a server of OpenCode, and an agent that asks
/// the worker.
const HTTP_CLIENTS: &[&str] = &["runner_client/", "webhook/", "runner/bridge/", "cli/lease.rs"];

#[test]
fn only_named_files_ask_over_http() {
    let mut faults = Vec::new();
    for source in sources() {
        let path = source.path.display().to_string();
        if HTTP_CLIENTS.iter().any(|client| path.starts_with(client)) {
            continue;
        }
        for (number, _) in source.lines.iter().filter(|(_, line)| line.contains("reqwest::")) {
            faults
                .push(format!("src/{path}:{number}: runner_client/ speaks with runners; another client is named here"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_store_holds_all_sql() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| source.module != "store") {
        for (number, line) in &source.lines {
            if line.contains("sqlx::") {
                faults.push(format!("src/{}:{number}: SQL belongs in store/", source.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
