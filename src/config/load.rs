//! Reads the settings, layer by layer: the shipped file, the user's file, variables.
//!
//! A fault is reported where the person made it: in a file with line, column and caret, in a variable by its name. The
//! merged settings are then checked as a whole; nothing is ever read in part.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::mem::discriminant;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::check::{Contradictions, check};
use crate::config::keys::{Key, keys};
use crate::config::paths::{Environment, Paths};
use crate::config::{Config, DEFAULTS};
use crate::protocol::variable;

/// What every variable of Sexton begins with.
const PREFIX: &str = "SEXTON_";

/// Variables that are Sexton's own and no settings.
const NO_SETTINGS: [&str; 5] = ["SEXTON_CONFIG", "SEXTON_REQUIRE", "SEXTON_FUZZ_CASES", "SEXTON_LOG", "SEXTON_CGROUP"];

/// Where settings come from, beside the shipped file.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file named by `--config`.
    pub file: Option<PathBuf>,
    /// The environment.
    pub env: Environment,
}

/// The settings that hold, and the file that they were read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The user's file; none when there is none.
    pub file: Option<PathBuf>,
}

/// Why the settings cannot be used. Its text is for the person who wrote them.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the settings in {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The file says something that is not understood; several lines, with a caret under the fault.
    #[error("{}: {snippet}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Line, column, the line itself, and what was expected.
        snippet: String,
    },
    /// A variable names no setting, or gives it a bad value.
    #[error("{name}: {reason}")]
    Variable {
        /// The variable.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The settings contradict each other.
    #[error(transparent)]
    Contradiction(#[from] Contradictions),
}

/// Reads and checks all layers.
///
/// # Errors
/// The first fault, in words for the person who made it; never a part of the settings.
pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let file = read_file(sources)?;
    let text = file.as_ref().map_or("", |(_, text)| text.as_str());
    let mut table = read_table(text).map_err(|error| in_file(file.as_ref(), text, error))?;
    apply_variables(&mut table, &sources.env)?;
    let config = to_config(&table).map_err(|error| in_file(file.as_ref(), text, error))?;
    check(&config)?;
    Ok(Loaded { config, file: file.map(|(path, _)| path) })
}

impl Config {
    /// Returns the settings of the shipped file alone.
    ///
    /// # Panics
    /// Never: the shipped file is read in a test.
    #[must_use]
    #[expect(clippy::expect_used, reason = "compiled in, and read in a test")]
    pub fn defaults() -> Self {
        toml::from_str(DEFAULTS).expect("the shipped config.toml is complete")
    }
}

/// Reads the user's file: the named one must exist, the one in the XDG folder may.
fn read_file(sources: &Sources) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let named = sources.file.clone().or_else(|| sources.env.get("SEXTON_CONFIG").map(PathBuf::from));
    let must_exist = named.is_some();
    let Some(path) = named.or_else(|| Paths::new(sources.env.clone()).config_file()) else { return Ok(None) };
    match std::fs::read(&path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some((path, text))),
            Err(_) => Err(ConfigError::Unreadable { path, reason: "it is not UTF-8 text".to_owned() }),
        },
        Err(error) if !must_exist && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(ConfigError::Unreadable { path, reason: error.to_string() }),
    }
}

/// Parses `text`, proves that it is right by itself, and fills in what it leaves out.
///
/// Spans of keys that `text` holds point into `text`; a default is never at fault.
fn read_table(text: &str) -> Result<Spanned<DeTable<'_>>, toml::de::Error> {
    let mut table = DeTable::parse(text)?;
    fill(table.get_mut(), DeTable::parse(DEFAULTS)?.into_inner());
    to_config(&table)?;
    Ok(table)
}

/// Puts into `table` what only `defaults` has.
fn fill<'a>(table: &mut DeTable<'a>, defaults: DeTable<'a>) {
    for (key, default) in defaults {
        match (table.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut), default.get_ref()) {
            (None, _) => {
                table.insert(key, default);
            }
            (Some(DeValue::Table(inner)), DeValue::Table(missing)) => fill(inner, missing.clone()),
            (Some(_), _) => {}
        }
    }
}

fn to_config(table: &Spanned<DeTable<'_>>) -> Result<Config, toml::de::Error> {
    Config::deserialize(toml::Deserializer::from(table.clone()))
}

/// Writes a fault of the file with the file's name before toml's own rendering.
fn in_file(file: Option<&(PathBuf, String)>, text: &str, mut error: toml::de::Error) -> ConfigError {
    error.set_input(Some(text));
    let rendered = error.to_string();
    let snippet = rendered.trim_end();
    let snippet = snippet.strip_prefix("TOML parse error at ").unwrap_or(snippet).to_owned();
    let path = file.map_or_else(|| Path::new("config.toml").to_owned(), |(path, _)| path.clone());
    ConfigError::File { path, snippet }
}

fn apply_variables<'a>(table: &mut Spanned<DeTable<'a>>, env: &'a Environment) -> Result<(), ConfigError> {
    let known = keys();
    for (name, value) in env.starting_with(PREFIX) {
        // It may run inside an engine.
        let no_setting = NO_SETTINGS.contains(&name) || variable::ALL.contains(&name);
        if no_setting || name.starts_with("SEXTON_TEST_") {
            continue;
        }
        let refused = |reason: String| ConfigError::Variable { name: name.to_owned(), reason };
        let key = known.iter().find(|key| key.variable() == name).ok_or_else(|| refused(unknown(name, &known)))?;
        let value = value.to_str().ok_or_else(|| refused("its value is not UTF-8 text".to_owned()))?;
        set(table, name, &key.name, value)?;
    }
    Ok(())
}

/// Says that no setting has this variable, and which come nearest: in whole, or if their table was left out.
fn unknown(name: &str, known: &[Key]) -> String {
    let name = name.to_uppercase();
    let distance = |key: &&Key| {
        let variable = key.variable();
        let without_table = variable.rsplit("__").next().map(|last| format!("{PREFIX}{last}"));
        let short = without_table.map_or(usize::MAX, |short| strsim::osa_distance(&short, &name) + 1);
        strsim::osa_distance(&variable, &name).min(short)
    };
    let least = known.iter().map(|key| distance(&key)).min();
    let nearest = known.iter().filter(|key| Some(distance(key)) == least).map(Key::variable);
    format!("no setting has this variable; the nearest is {}", nearest.collect::<Vec<_>>().join(" or "))
}

/// Sets one key to a value given as text, typed as the default is; `source` is named when it does not fit.
fn set<'a>(table: &mut Spanned<DeTable<'a>>, source: &str, key: &str, text: &'a str) -> Result<(), ConfigError> {
    let refused = |reason: String| ConfigError::Variable { name: source.to_owned(), reason };
    let Some(slot) = find(table.get_mut(), key) else {
        return Err(refused(format!("there is no setting {key}")));
    };
    *slot = typed(slot, text).map_err(refused)?;
    to_config(table).map(|_| ()).map_err(|error| refused(error.message().to_owned()))
}

fn find<'t, 'a>(table: &'t mut DeTable<'a>, key: &str) -> Option<&'t mut DeValue<'a>> {
    match key.split_once('.') {
        None => table.get_mut(key).map(Spanned::get_mut),
        Some((name, rest)) => match table.get_mut(name).map(Spanned::get_mut) {
            Some(DeValue::Table(inner)) => find(inner, rest),
            _ => None,
        },
    }
}

/// Reads `text` as a value of the same type as `like`.
fn typed<'a>(like: &DeValue<'_>, text: &'a str) -> Result<DeValue<'a>, String> {
    if matches!(like, DeValue::String(_)) {
        return Ok(DeValue::String(Cow::Borrowed(text)));
    }
    let wanted = match like {
        DeValue::Boolean(_) => "true or false",
        DeValue::Array(_) => "a list such as [\"claude\", \"-p\"]",
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => {
            "a whole number"
        }
    };
    let refused = || format!("{text:?} is not {wanted}");
    let value = DeValue::parse(text.trim()).map_err(|_| refused())?.into_inner();
    if discriminant(&value) == discriminant(like) { Ok(value) } else { Err(refused()) }
}
