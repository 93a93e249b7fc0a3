//! Finds real engines, and gives them a home of their own that leads only to the tests' model.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;

/// Returns the program of an engine, from `$SEXTON_TEST_ENGINES` (a folder with `node_modules/.bin`) or the path.
///
/// Without it the caller's test says that it was skipped, which `SEXTON_REQUIRE=engines` (or `all`) makes a failure.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let chosen = std::env::var_os("SEXTON_TEST_ENGINES").map(|folder| Path::new(&folder).join("node_modules/.bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = chosen.into_iter().chain(std::env::split_paths(&path)).map(|folder| folder.join(name));
    let found = found.into_iter().find(|program| program.is_file());
    if found.is_none() {
        let required = std::env::var("SEXTON_REQUIRE").unwrap_or_default();
        let must = required.split(',').any(|word| ["engines", "all"].contains(&word.trim()));
        assert!(!must, "SEXTON_REQUIRE wants {name}, and it is neither in $SEXTON_TEST_ENGINES nor in the path");
        let _ = writeln!(std::io::stderr(), "skipped: {name} is not installed");
    }
    found
}

/// Returns the environment in which OpenCode knows only the model at `base_url`, and asks nobody else.
pub(crate) fn opencode_env(home: &Path, base_url: &str) -> BTreeMap<String, String> {
    let options = json!({"baseURL": format!("{base_url}/v1"), "apiKey": "none"});
    let config = json!({
        "model": "anthropic/claude-sonnet-4-5",
        "small_model": "anthropic/claude-haiku-4-5",
        "share": "disabled",
        "autoupdate": false,
        "provider": {"anthropic": {"options": options}},
        "permission": {"bash": {"*": "allow", "touch *": "ask"}},
    });
    let home = home.display().to_string();
    let pairs = [
        ("HOME", home.clone()),
        ("XDG_CONFIG_HOME", format!("{home}/.config")),
        ("XDG_DATA_HOME", format!("{home}/.local/share")),
        ("XDG_STATE_HOME", format!("{home}/.local/state")),
        ("XDG_CACHE_HOME", format!("{home}/.cache")),
        ("ANTHROPIC_API_KEY", "none".to_owned()),
        ("OPENCODE_CONFIG_CONTENT", config.to_string()),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1".to_owned()),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".to_owned()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
