//! What is about to be done with an engine, on disk before it is done.
//!
//! The file of a start carries the generation in its name, so that even a damaged one says which engine it was.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::protocol::ResumeCommand;
use crate::runner::engines::AdapterKind;
use crate::runner::files;
use crate::session::Id;
use crate::time::{Ms, UtcMs};

/// An engine is about to be started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartIntent {
    /// The engine's name.
    pub(crate) engine: String,
    /// The folder to run it in.
    pub(crate) cwd: String,
    /// On whose behalf.
    pub(crate) owner_id: Option<String>,
    /// How it speaks.
    #[serde(default)]
    pub(crate) adapter: AdapterKind,
    /// The engine's own id of the conversation that it was to take up again.
    #[serde(default)]
    pub(crate) engine_session_id: Option<String>,
    /// Under which generation it was launched, or is; none where that is the one of the file's name.
    #[serde(default)]
    pub(crate) start: Option<i64>,
    /// The boot in which it runs.
    pub(crate) boot_id: String,
    /// When, on the clock that stands still in sleep.
    #[serde(default)]
    pub(crate) awake: Ms,
    /// When.
    pub(crate) at: UtcMs,
}

/// An engine is about to be stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndIntent {
    /// Which start of the session.
    pub(crate) generation: i64,
    /// Why.
    pub(crate) reason: String,
    /// The sweep that asked.
    pub(crate) sweep_id: Option<Id>,
    /// Nothing was asked of the engine's state: a person's explicit wish.
    #[serde(default)]
    pub(crate) forced: bool,
    /// How the conversation is taken up again, while that is known.
    #[serde(default)]
    pub(crate) resume: Option<ResumeCommand>,
}

const END: &str = "end.json";
const CONVERSATION: &str = "conversation.json";

/// Writes that the engine of `generation` is about to be started, or to be known under it.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write_start(folder: &Path, generation: i64, intent: &StartIntent) -> io::Result<()> {
    files::make_folder(folder)?;
    files::write_json(&start_path(folder, generation), intent)
}

/// Takes back what [`write_start`] wrote.
///
/// # Errors
/// When it cannot be removed.
pub(crate) fn remove_start(folder: &Path, generation: i64) -> io::Result<()> {
    files::remove(&start_path(folder, generation))
}

/// The highest generation that was to be started, with its intent or why that cannot be read.
pub(crate) type Started = (i64, Result<StartIntent, String>);

/// Returns what was to be started in the folder; none proves that no engine ever came to be there.
///
/// # Errors
/// When the folder cannot be read to its end: then nobody knows.
pub(crate) fn read_start(folder: &Path) -> io::Result<Option<Started>> {
    let mut highest = None;
    for entry in fs::read_dir(folder)? {
        highest = highest.max(generation_of(&entry?.file_name().to_string_lossy()));
    }
    let Some(generation) = highest else { return Ok(None) };
    let intent = files::read_json(&start_path(folder, generation)).map_err(|error| error.to_string());
    Ok(Some((generation, intent.and_then(|intent| intent.ok_or_else(|| "it is gone".to_owned())))))
}

/// Writes that the engine is about to be stopped.
///
/// # Errors
/// When it cannot be written; then nothing may be stopped.
pub(crate) fn write_end(folder: &Path, intent: &EndIntent) -> io::Result<()> {
    files::write_json(&folder.join(END), intent)
}

/// Takes back what [`write_end`] wrote.
///
/// # Errors
/// When it cannot be removed.
pub(crate) fn remove_end(folder: &Path) -> io::Result<()> {
    files::remove(&folder.join(END))
}

/// Reads what [`write_end`] wrote; an unreadable one is as good as none, since the engine's end is known without it.
#[must_use]
pub(crate) fn read_end(folder: &Path) -> Option<EndIntent> {
    files::read_json(&folder.join(END)).ok().flatten()
}

/// Writes the engine's own id of its conversation; or that it has said none.
///
/// # Errors
/// When it cannot be written; then nobody may be told of it.
pub(crate) fn write_conversation(folder: &Path, engine_session_id: Option<&str>) -> io::Result<()> {
    match engine_session_id {
        Some(id) => files::write_json(&folder.join(CONVERSATION), &id),
        None => files::remove(&folder.join(CONVERSATION)),
    }
}

/// Reads what [`write_conversation`] wrote; an unreadable one is as good as none, since the engine may tell it again.
#[must_use]
pub(crate) fn read_conversation(folder: &Path) -> Option<String> {
    files::read_json(&folder.join(CONVERSATION)).ok().flatten()
}

fn start_path(folder: &Path, generation: i64) -> PathBuf {
    folder.join(format!("start.{generation}.json"))
}

fn generation_of(name: &str) -> Option<i64> {
    name.strip_prefix("start.")?.strip_suffix(".json")?.parse().ok()
}
